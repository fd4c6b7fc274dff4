//! Noticing that the file has changed: by looking at it, which sees renames and swapped symbolic
//! links alike, on every file system.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Reloader;
use crate::listen::{ShutdownPhase, ShutdownSignal};

/// How often to look.
const EVERY: Duration = Duration::from_millis(500);

/// What tells one state of a file from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// Where the links lead.
    target: PathBuf,
    device: u64,
    node: u64,
    size: u64,
    modified: (i64, i64),
}

impl Look {
    /// Nothing when there is no such file at the moment, as between two steps of a swap.
    pub(super) fn at(file: &Path) -> Option<Self> {
        let target = fs::canonicalize(file).ok()?;
        let found = fs::metadata(&target).ok()?;
        Some(Self {
            target,
            device: found.dev(),
            node: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }
}

/// ReloadStatus when the file changes, until the server stops.
pub(crate) async fn watch(reloader: Arc<Reloader>, mut stop: ShutdownSignal) {
    let Some(file) = reloader.file().cloned() else {
        return;
    };
    let mut seen = reloader.first.clone();
    loop {
        tokio::select! {
            () = stop.reached(ShutdownPhase::Draining) => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let now = Look::at(&file);
        if now.is_some() && now != seen {
            seen = now;
            // What became of it is logged, counted and shown.
            drop(reloader.reload().await);
        }
    }
}
