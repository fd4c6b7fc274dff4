//! The file that keeps the counters of the memory store over a restart.
//!
//! A second process is kept out, because it would count by itself.

use std::fs::TryLockError;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tollgate::memory::{MemoryStoreBuilder, SnapshotError};
use tollgate::{MemoryStore, Micros};

use super::sealing_keys::{KeyBytes, decode_key, encode_key, random_key};
use super::state_file::{self, StateFile};

/// What a snapshot begins with: eight letters and its version.
const HEAD_BYTES: u64 = 16;
/// The most bytes of a snapshot for each key that the store may have: a counter, or its share of a
/// log. A file that has more is not a snapshot of such a store.
const KEY_BYTES_MAX: u64 = 256;
/// A snapshot may always have this size, so that the cap can be lowered.
const BYTES_MAX_MIN: u64 = 1 << 30;
/// More bytes than the text of a key has.
const KEY_TEXT_MAX: u64 = 64;

/// The file of a memory store, which this process alone uses until it ends.
#[derive(Debug)]
pub struct SnapshotFile {
    file: StateFile,
    state: Mutex<SnapshotState>,
}

/// How saving went so far.
#[derive(Clone, Debug, Default)]
pub struct SnapshotState {
    /// When the file was last saved by this process.
    pub saved_at: Option<Micros>,
    /// Why the last attempt failed; none if it succeeded.
    pub error: Option<String>,
}

/// Why the service cannot use a snapshot file.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFileError {
    #[error(
        "another process uses the snapshot {}: it holds a lock on {}; every process counts by \
         itself, so give each its own file, or share the counters with a Redis store",
        file.display(), lock.display()
    )]
    InUse { file: PathBuf, lock: PathBuf },

    #[error("cannot lock {}: {source}; the service must be able to write there", lock.display())]
    Lock { lock: PathBuf, source: io::Error },

    #[error("cannot read the snapshot {}: {source}", file.display())]
    Read { file: PathBuf, source: io::Error },

    #[error(
        "cannot restore the snapshot {}: {source}; replace the file with an older snapshot, or \
         move or delete it to start with empty counters",
        file.display()
    )]
    Invalid {
        file: PathBuf,
        source: SnapshotError,
    },

    #[error(
        "cannot use {}, the key that seals tokens: {source}; delete the file to make a new key, \
         which makes the tokens of open permits invalid",
        file.display()
    )]
    Key { file: PathBuf, source: io::Error },
}

impl SnapshotFile {
    /// Locks the file, and builds the store with the counters in it. Without a file the store is
    /// empty. `keys_max` is the cap of the store.
    pub(super) fn open(
        path: &Path,
        builder: MemoryStoreBuilder,
        keys_max: usize,
    ) -> Result<(Self, MemoryStore), SnapshotFileError> {
        let locked = StateFile::lock(path).map_err(|(lock, error)| match error {
            TryLockError::WouldBlock => SnapshotFileError::InUse {
                file: path.to_owned(),
                lock,
            },
            TryLockError::Error(source) => SnapshotFileError::Lock { lock, source },
        });
        let file = Self {
            file: locked?,
            state: Mutex::default(),
        };

        let store = match file.read(keys_max) {
            Ok(snapshot) => restore(path, &snapshot, builder)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = path.display();
                tracing::info!(%file, "no snapshot yet: starting with empty counters");
                builder.build()
            }
            Err(source) => {
                let file = path.to_owned();
                return Err(SnapshotFileError::Read { file, source });
            }
        };
        Ok((file, store))
    }

    /// Reads the whole file, or only its head if it is not that of a snapshot.
    fn read(&self, keys_max: usize) -> io::Result<Vec<u8>> {
        let keys_max = u64::try_from(keys_max).unwrap_or(u64::MAX);
        let bytes_max = keys_max.saturating_mul(KEY_BYTES_MAX).max(BYTES_MAX_MIN);
        let mut file = self.file.open(bytes_max)?;

        let mut snapshot = Vec::new();
        file.by_ref().take(HEAD_BYTES).read_to_end(&mut snapshot)?;
        // The head alone is damaged at best.
        if let Err(SnapshotError::Damaged) = MemoryStore::restore(&snapshot) {
            file.read_to_end(&mut snapshot)?;
        }
        Ok(snapshot)
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub fn state(&self) -> SnapshotState {
        self.state.lock().clone()
    }

    /// Replaces the file with the counters of the store. Blocks until the disk has them.
    pub(super) fn save(&self, store: &MemoryStore) -> io::Result<()> {
        self.file.replace(|file| store.write_snapshot(file))
    }

    /// The key that seals tokens, from the file next to the snapshot. Permits survive a restart,
    /// and so must their tokens.
    pub(super) fn sealing_key(&self) -> Result<KeyBytes, SnapshotFileError> {
        let file = self.file.sibling(".key");
        let key = match read_key(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = random_key();
                let text = encode_key(&key);
                state_file::replace(&file, |file| file.write_all(text.as_bytes())).map(|()| key)
            }
            read => read,
        };
        key.map_err(|source| SnapshotFileError::Key { file, source })
    }

    /// Records the result of saving, and logs it if it differs from the previous one.
    pub(super) fn record(&self, result: io::Result<()>, now: Micros) {
        let mut state = self.state.lock();
        let had_failed = state.error.is_some();
        let file = self.path().display();

        match result {
            Ok(()) => {
                state.saved_at = Some(now);
                state.error = None;
                if had_failed {
                    tracing::info!(%file, "the snapshot is saved again");
                }
            }
            Err(error) => {
                if !had_failed {
                    tracing::error!(%file, %error, "cannot save the snapshot of the counters");
                }
                state.error = Some(error.to_string());
            }
        }
    }

    /// What the operator should know. `None` if the file is saved as it should be.
    pub(super) fn warning(&self) -> Option<String> {
        let error = self.state.lock().error.clone()?;
        let file = self.path().display();
        Some(format!(
            "the snapshot {file} cannot be saved, so a restart forgets what was counted since: \
             {error}"
        ))
    }
}

fn restore(
    path: &Path,
    snapshot: &[u8],
    builder: MemoryStoreBuilder,
) -> Result<MemoryStore, SnapshotFileError> {
    let store = builder.restore(snapshot).map_err(|source| {
        let file = path.to_owned();
        SnapshotFileError::Invalid { file, source }
    })?;

    let (file, counters) = (path.display(), store.keys());
    tracing::info!(%file, counters, "counters restored from the snapshot");
    Ok(store)
}

/// Reads a key, and no more than that of the file.
fn read_key(path: &Path) -> io::Result<KeyBytes> {
    let mut text = String::new();
    state_file::open(path, KEY_TEXT_MAX)?.read_to_string(&mut text)?;
    decode_key(text.trim_end())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it does not contain a key"))
}
