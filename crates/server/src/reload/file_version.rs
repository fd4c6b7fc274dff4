//! Versions of the certificate files, compared by polling, which detects renames and replaced
//! symbolic links on every file system.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The metadata that differs between two versions of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileVersion {
    /// The path after following symbolic links.
    target: PathBuf,
    device: u64,
    inode: u64,
    /// When the file or its metadata changed, in seconds and nanoseconds since the UNIX epoch. Unlike
    /// the time of the last modification, no program can set it.
    changed: (i64, i64),
}

impl FileVersion {
    /// None when the file does not exist, as for a moment while it is being replaced.
    pub(super) fn read(file: &Path) -> Option<Self> {
        let target = fs::canonicalize(file).ok()?;
        let metadata = fs::metadata(&target).ok()?;
        Some(Self {
            target,
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}
