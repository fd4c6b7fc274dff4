//! Reads the files in `deploy/`; tests replace only addresses in them.

use std::path::PathBuf;

/// A file of `deploy/`.
pub(crate) fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).expect("a file of that name")
}

pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy")).join(name)
}

/// Replaces a part of the text, which must be there.
pub(crate) fn put(text: &str, part: &str, other: &str) -> String {
    assert!(text.contains(part), "{part:?} is not in the file");
    text.replace(part, other)
}
