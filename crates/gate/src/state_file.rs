//! A file that keeps state over a restart: of the counters in memory, or of the known actions.
//!
//! The file is only ever replaced as a whole: a process that ends while it saves leaves the
//! previous one. A lock next to it keeps a second process out.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// Only the user of the service may read the file: keys can be read from it, or guessed with it.
const MODE: u32 = 0o600;
/// The most symbolic links that are followed, as by the system.
const LINKS_MAX: usize = 40;

/// A file that this process alone uses until it ends.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    /// Held while one thread saves: the temporary file belongs to that thread.
    saving: Mutex<()>,
    /// The system releases the lock when the file is closed, however the process ends.
    _lock: File,
}

impl StateFile {
    /// Locks the file, without waiting for it. The error has the path of the lock.
    pub(super) fn lock(path: &Path) -> Result<Self, (PathBuf, TryLockError)> {
        let lock = sibling(&followed(path), ".lock");
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(MODE);

        let locked = match options.open(&lock) {
            Ok(file) => file.try_lock().map(|()| file),
            Err(error) => Err(TryLockError::Error(error)),
        };
        Ok(Self {
            path: path.to_owned(),
            saving: Mutex::default(),
            _lock: locked.map_err(|error| (lock, error))?,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A file next to this one, or next to the file that a symbolic link names.
    pub(super) fn sibling(&self, extension: &str) -> PathBuf {
        sibling(&followed(&self.path), extension)
    }

    /// Reads the file; see [`open`].
    pub(super) fn open(&self, bytes_max: u64) -> io::Result<impl io::Read + use<>> {
        open(&self.path, bytes_max)
    }

    /// Replaces the file; see [`replace`].
    pub(super) fn replace(
        &self,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let _saving = self.saving.lock();
        replace(&self.path, write)
    }
}

/// Reads a file, of which at most this number of bytes. What is not a regular file may be endless.
pub(super) fn open(path: &Path, bytes_max: u64) -> io::Result<impl io::Read + use<>> {
    let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidInput, error);
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(invalid("it is not a regular file".to_owned()));
    }
    if metadata.len() > bytes_max {
        let error = format!(
            "it has {} bytes; at most {bytes_max} are read",
            metadata.len()
        );
        return Err(invalid(error));
    }
    // It may grow while it is read.
    Ok(File::open(path)?.take(bytes_max))
}

/// Replaces a file with what `write` writes. Blocks until the disk has it. A symbolic link stays
/// one: the file that it names is replaced.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let path = followed(path);
    let temporary = sibling(&path, ".tmp");
    // A process that was killed may have left it.
    drop(fs::remove_file(&temporary));

    let saved = create(&temporary, write).and_then(|()| fs::rename(&temporary, &path));
    if let Err(error) = saved {
        drop(fs::remove_file(&temporary));
        return Err(error);
    }
    // Without this, the new name may be lost with the machine's power.
    File::open(directory(&path))?.sync_all()
}

fn create(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(MODE).open(path)?;
    write(&mut file)?;
    file.sync_all()
}

/// The path that a symbolic link names, which may not exist; any other path as it is.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        // An absolute target replaces the directory.
        path = directory(&path).join(target);
    }
    path
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
