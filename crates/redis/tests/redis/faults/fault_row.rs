//! A row of the fault table. It has the machine to itself.

use std::fs::File;
use std::path::Path;

/// A row under test. Rows would disturb each other's figures, so a file lock allows one at a time,
/// even if the test runner starts a process for each test.
#[derive(Debug)]
pub(crate) struct FaultRow {
    pub(crate) name: &'static str,
    _alone: File,
}

impl FaultRow {
    /// Waits until no other row is under test.
    pub(crate) fn begin(name: &'static str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults.lock");
        let file = File::create(path).expect("the directory for test files is writable");
        file.lock().expect("a file can be locked");
        Self { name, _alone: file }
    }
}
