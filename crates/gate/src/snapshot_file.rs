//! The file that keeps the counters of the memory store over a restart.
//!
//! The file is only ever replaced as a whole: a process that ends while it saves leaves the
//! previous one. A lock next to it keeps a second process out, which would count by itself.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tollgate::memory::{MemoryStoreBuilder, SnapshotError};
use tollgate::{MemoryStore, Micros};

/// Only the user of the service may read the file: with it, keys can be guessed.
const MODE: u32 = 0o600;

/// The file of a memory store, which this process alone uses until it ends.
#[derive(Debug)]
pub struct SnapshotFile {
    path: PathBuf,
    /// Held while one thread saves: the temporary file belongs to that thread.
    saving: Mutex<()>,
    state: Mutex<SnapshotState>,
    /// The system releases the lock when the file is closed, however the process ends.
    _lock: File,
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
}

impl SnapshotFile {
    /// Locks the file, and builds the store with the counters in it. Without a file the store is
    /// empty.
    pub(super) fn open(
        path: &Path,
        builder: MemoryStoreBuilder,
    ) -> Result<(Self, MemoryStore), SnapshotFileError> {
        let file = Self {
            _lock: lock(path)?,
            path: path.to_owned(),
            saving: Mutex::default(),
            state: Mutex::default(),
        };

        let store = match read(path) {
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

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn state(&self) -> SnapshotState {
        self.state.lock().clone()
    }

    /// Replaces the file with the counters of the store. Blocks until the disk has them.
    pub(super) fn save(&self, store: &MemoryStore) -> io::Result<()> {
        let _saving = self.saving.lock();
        let temporary = sibling(&self.path, ".tmp");
        // A process that was killed may have left it.
        drop(fs::remove_file(&temporary));

        let saved = write(&temporary, store).and_then(|()| fs::rename(&temporary, &self.path));
        if let Err(error) = saved {
            drop(fs::remove_file(&temporary));
            return Err(error);
        }
        // Without this, the new name may be lost with the machine's power.
        File::open(directory(&self.path))?.sync_all()
    }

    /// Records the result of saving, and logs it if it differs from the previous one.
    pub(super) fn record(&self, result: io::Result<()>, now: Micros) {
        let mut state = self.state.lock();
        let had_failed = state.error.is_some();
        let file = self.path.display();

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
        let file = self.path.display();
        Some(format!(
            "the snapshot {file} cannot be saved, so a restart forgets what was counted since: \
             {error}"
        ))
    }
}

/// Takes the lock of a snapshot file, without waiting for it.
fn lock(path: &Path) -> Result<File, SnapshotFileError> {
    let lock = sibling(path, ".lock");
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(MODE);

    let locked = match options.open(&lock) {
        Ok(file) => file.try_lock().map(|()| file),
        Err(error) => Err(TryLockError::Error(error)),
    };
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => SnapshotFileError::InUse {
            file: path.to_owned(),
            lock,
        },
        TryLockError::Error(source) => SnapshotFileError::Lock { lock, source },
    })
}

/// Reads the whole file. What is not a regular file may be endless.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        let error = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    fs::read(path)
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

fn write(path: &Path, store: &MemoryStore) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(MODE).open(path)?;

    store.write_snapshot(&mut file)?;
    file.sync_all()
}

/// The file of this name in the same directory, with an extension added.
fn sibling(path: &Path, extension: &str) -> PathBuf {
    let mut sibling = OsString::from(path);
    sibling.push(extension);
    sibling.into()
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
