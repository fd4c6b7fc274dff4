//! Where lines are written: standard output, or a file that is rotated.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tollgate_rules::config::{AuditLogConfig, AuditTarget};

/// The output cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("audit_log.to: cannot write to {target}: {source}")]
pub(crate) struct AuditLogError {
    target: String,
    source: io::Error,
}

/// An output of lines.
#[derive(Debug)]
pub(super) enum AuditOutput {
    /// A copy of the descriptor. The lock of standard output would be held while its reader is slow,
    /// and everything else that prints would wait for it.
    Stdout(File),
    File(RotatedFile),
}

/// A file that is renamed when it has its size.
#[derive(Debug)]
pub(super) struct RotatedFile {
    path: PathBuf,
    size_max: u64,
    keep: u32,
    /// None while it cannot be opened, such as a pipe without a reader.
    file: Option<File>,
    size: u64,
    /// Whether it can be renamed; pipes and devices cannot.
    is_regular: bool,
}

impl AuditOutput {
    pub(super) fn open(config: &AuditLogConfig) -> Result<Self, AuditLogError> {
        let failed = |target: &str| {
            let target = target.to_owned();
            move |source| AuditLogError { target, source }
        };
        match &config.target {
            AuditTarget::Stdout => {
                let copy = io::stdout().as_fd().try_clone_to_owned();
                let copy = copy.map_err(failed("standard output"))?;
                Ok(Self::Stdout(copy.into()))
            }
            AuditTarget::File(path) => {
                let mut file = RotatedFile {
                    path: path.clone(),
                    size_max: u64::try_from(config.rotate_size).unwrap_or(u64::MAX),
                    keep: config.rotate_keep,
                    file: None,
                    size: 0,
                    is_regular: false,
                };
                let opened = file.open();
                opened.map_err(failed(&path.display().to_string()))?;
                Ok(Self::File(file))
            }
        }
    }

    /// Writes a part of these bytes, which begin with a line of this length unless it is 0.
    /// `WouldBlock` means that the output takes nothing now.
    pub(super) fn write(&mut self, bytes: &[u8], line: usize) -> io::Result<usize> {
        match self {
            Self::Stdout(file) => file.write(bytes),
            Self::File(file) => file.write(bytes, line),
        }
    }
}

impl RotatedFile {
    /// Opens the file, or leaves it closed if it is a pipe without a reader. Never waits.
    fn open(&mut self) -> io::Result<()> {
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let opened = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o640)
            .custom_flags(nonblocking)
            .open(&self.path);
        let file = match opened {
            // No reader: ENXIO.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                self.file = None;
                return Ok(());
            }
            opened => opened?,
        };

        let metadata = file.metadata()?;
        self.is_regular = metadata.is_file();
        self.size = metadata.len();
        self.file = Some(file);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], line: usize) -> io::Result<usize> {
        let length = u64::try_from(line).unwrap_or(u64::MAX);
        let is_full = self.size > 0 && self.size.saturating_add(length) > self.size_max;
        if line > 0 && self.is_regular && is_full {
            self.rotate()?;
        }
        if self.file.is_none() {
            self.open()?;
        }

        let file = self.file.as_mut().ok_or(ErrorKind::WouldBlock)?;
        let written = file.write(bytes);
        match &written {
            Ok(count) => self.size += u64::try_from(*count).unwrap_or(0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // Opened again by the next line: the reader of a pipe may come back.
            Err(_) => self.file = None,
        }
        written
    }

    /// Renames `FILE` to `FILE.1`, `FILE.1` to `FILE.2` and so on. The oldest is replaced.
    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        for number in (1..self.keep).rev() {
            let (from, to) = (
                numbered(&self.path, number),
                numbered(&self.path, number + 1),
            );
            match fs::rename(from, to) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, numbered(&self.path, 1))?;
        self.open()
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}
