//! Notices changes of the configuration file by polling it, which detects renames and replaced
//! symbolic links on every file system.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Reloader;
use crate::listen::{ShutdownPhase, ShutdownSignal};

/// How often the file is polled.
const INTERVAL: Duration = Duration::from_millis(500);

/// The metadata that differs between two versions of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// Reloads the file whenever it changes, until the server shuts down.
pub(crate) async fn watch(reloader: Arc<Reloader>, mut shutdown: ShutdownSignal) {
    let Some(file) = reloader.file().cloned() else {
        return;
    };

    let mut known = reloader.first_version.clone();
    loop {
        tokio::select! {
            () = shutdown.wait_for(ShutdownPhase::Draining) => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }

        let current = FileVersion::read(&file);
        if current.is_some() && current != known {
            known = current;
            // The reloader logs and records the result.
            drop(reloader.reload().await);
        }
    }
}
