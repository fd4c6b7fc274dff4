//! The file that keeps the known actions over a restart during which the store is unavailable.

use std::fs::TryLockError;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tollgate::Micros;

use super::actions::LogEntry;
use super::gate::Gate;
use super::state_file::StateFile;
use crate::records::{RecordRevision, TTL_MAX};

/// The name of the file in its directory.
const NAME: &str = "actions.json";
const VERSION: u32 = 1;
/// More than the largest file that is written.
const BYTES_MAX: u64 = 128 << 20;

/// The file with the known actions, and the last change that is in it.
#[derive(Debug)]
pub(super) struct ActionsFile {
    file: StateFile,
    /// Held while a thread writes, so that no older state replaces a newer one.
    writing: Mutex<()>,
    saved: Mutex<SavedActions>,
}

#[derive(Debug, Default)]
struct SavedActions {
    changes: u64,
    /// The revision of the log at that change.
    revision: RecordRevision,
    /// Why the last attempt failed; none if it succeeded.
    error: Option<String>,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct KeptActions {
    version: u32,
    /// By the wall clock.
    saved_at_ms: u64,
    records: Vec<KeptRecord>,
}

/// A record as the store has it.
#[derive(Debug, Serialize, Deserialize)]
struct KeptRecord {
    id: String,
    text: String,
    /// How long it was valid when it was saved.
    left_ms: u64,
}

/// Why known actions cannot be kept in a directory.
#[derive(Debug, thiserror::Error)]
pub enum ActionsFileError {
    /// Another process holds the lock.
    #[error("another process keeps its actions there: it holds a lock on {}", _0.display())]
    InUse(PathBuf),
    /// The lock cannot be created.
    #[error("cannot lock {}: {source}; the service must be able to write there", lock.display())]
    Lock {
        /// The path of the lock.
        lock: PathBuf,
        /// Why it cannot be created.
        source: io::Error,
    },
}

impl Gate {
    /// Keeps the known actions in this directory from now on, and applies those that were kept
    /// there. What has ended since is over, and what the store knows better replaces them.
    pub fn keep_actions(&self, directory: &Path) -> Result<(), ActionsFileError> {
        let path = directory.join(NAME);
        let file = StateFile::lock(&path).map_err(|(lock, error)| match error {
            TryLockError::WouldBlock => ActionsFileError::InUse(lock),
            TryLockError::Error(source) => ActionsFileError::Lock { lock, source },
        })?;

        let path = path.display();
        match read(&file) {
            Ok(kept) => {
                self.restore_actions(&kept);
                let actions = self.action_log.lock().actions().count();
                tracing::info!(%path, actions, "actions restored");
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::error!(
                %path, %error,
                "cannot restore the known actions: only those in the store are in force"
            ),
        }
        let file = ActionsFile {
            file,
            writing: Mutex::default(),
            saved: Mutex::default(),
        };
        // Called once, by the start of the service.
        drop(self.actions_file.set(Arc::new(file)));
        Ok(())
    }

    fn restore_actions(&self, kept: &KeptActions) {
        let now = self.now();
        // A clock that was set back makes no action longer.
        let since = now.min(Micros::from_millis(kept.saved_at_ms));
        let longest = Micros::from_duration_ceil(TTL_MAX).unwrap_or_default();

        let mut log = self.action_log.lock();
        for KeptRecord { id, text, left_ms } in &kept.records {
            let left = Micros::from_millis(*left_ms).min(longest);
            log.put(id, LogEntry::new(id, text, since.after(left)));
        }
        log.drop_ended(now);
        drop(log);
        self.rebuild_actions();
    }

    /// Saves the known actions, if they are kept and have changed. Works in a thread of its own,
    /// which no decision waits for.
    pub async fn save_actions(&self) {
        let Some(file) = self.actions_file.get().cloned() else {
            return;
        };
        let now = self.now();
        let (changes, revision, records) = {
            let log = self.action_log.lock();
            if log.changes == file.saved.lock().changes {
                return;
            }
            let records = log.entries().map(|(id, entry)| KeptRecord {
                id: id.clone(),
                text: entry.text.to_string(),
                left_ms: entry.expires_at.since(now).get() / 1_000,
            });
            (log.changes, log.revision(), records.collect())
        };
        let kept = KeptActions {
            version: VERSION,
            saved_at_ms: now.get() / 1_000,
            records,
        };

        let save = move || file.save(changes, revision, &kept);
        // Saving does not panic; the thread is missing only when the runtime shuts down.
        drop(tokio::task::spawn_blocking(save).await);
    }

    /// The revision of the actions that this replica knows, and still will after a restart: other
    /// replicas learn of it when it is saved. A file that cannot be saved is a warning, and the
    /// known revision counts.
    pub fn kept_actions_revision(&self) -> RecordRevision {
        let log = self.action_log.lock();
        let Some(file) = self.actions_file.get() else {
            return log.revision();
        };
        let saved = file.saved.lock();
        if saved.changes == log.changes || saved.error.is_some() {
            log.revision()
        } else {
            saved.revision
        }
    }
}

impl ActionsFile {
    /// Replaces the file, and logs the result if it differs from the previous one.
    fn save(&self, changes: u64, revision: RecordRevision, kept: &KeptActions) {
        let _writing = self.writing.lock();
        if changes <= self.saved.lock().changes {
            return;
        }
        // Text and numbers never fail to serialise.
        let text = serde_json::to_vec(kept).unwrap_or_default();
        let result = self.file.replace(|file| file.write_all(&text));

        let path = self.file.path().display();
        let mut saved = self.saved.lock();
        let had_failed = saved.error.is_some();
        saved.error = result.err().map(|error| error.to_string());
        match &saved.error {
            None => (saved.changes, saved.revision) = (changes, revision),
            Some(error) if !had_failed => {
                tracing::error!(%path, %error, "cannot save the known actions");
            }
            Some(_) => {}
        }
    }

    /// What the operator should know; none if the file is saved as it should be.
    pub(super) fn warning(&self) -> Option<String> {
        let error = self.saved.lock().error.clone()?;
        let path = self.file.path().display();
        Some(format!(
            "the known actions cannot be saved to {path}, so a replica that restarts while the \
             store is unavailable does not know them: {error}"
        ))
    }
}

fn read(file: &StateFile) -> io::Result<KeptActions> {
    let mut text = Vec::new();
    file.open(BYTES_MAX)?.read_to_end(&mut text)?;
    let kept: KeptActions = serde_json::from_slice(&text)?;
    if kept.version != VERSION {
        let found = kept.version;
        let error = format!("unsupported format {found}; expected format {VERSION}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    Ok(kept)
}

#[cfg(test)]
mod tests;
