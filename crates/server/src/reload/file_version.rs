//! Versions of the configuration file, compared by polling, which detects renames and replaced
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
    size: u64,
    /// Seconds and nanoseconds since the UNIX epoch.
    modified: (i64, i64),
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
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}
