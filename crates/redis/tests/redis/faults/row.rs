//! A row of the fault table, and the machine for itself as long as it lasts.

use std::fs::File;
use std::path::Path;

/// A row under test. Rows would disturb each other's figures, so there is one at a time, also where
/// a test runner gives each its own process.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    _alone: File,
}

impl Row {
    /// Waits until no other row is under test.
    pub(crate) fn begin(name: &'static str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults.lock");
        let file = File::create(path).expect("the directory for the files of tests can be written");
        file.lock().expect("a file can be locked");
        Self { name, _alone: file }
    }
}
