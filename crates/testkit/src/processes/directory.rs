//! A temporary directory for a server's files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static CREATED: AtomicU32 = AtomicU32::new(0);

/// A new directory for temporary files, removed with everything in it when dropped.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Creates a directory. Its name is short, because the path of a socket file must fit in a
    /// hundred bytes.
    ///
    /// # Panics
    ///
    /// If the directory for temporary files is not writable.
    pub fn create() -> Self {
        Self::try_create().expect("the directory for temporary files is writable")
    }

    /// The same, for callers that can report an error.
    pub fn try_create() -> io::Result<Self> {
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tollgate-{}-{number}", std::process::id()));
        // A process that was killed may have left a directory with the same name.
        let _absent = fs::remove_dir_all(&path);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into the directory and returns its path.
    ///
    /// # Panics
    ///
    /// If the directory is not writable.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a directory just created can be written");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.0);
    }
}
