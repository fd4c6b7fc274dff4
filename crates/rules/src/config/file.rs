//! Reads a configuration file: only a regular one, and never more than the bound of its size.

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use super::diagnostic::ConfigError;

/// The maximum size of a file, in bytes. A thousand limits with every field take about 300 KiB.
pub(super) const FILE_MAX: usize = 1 << 20;

/// Reads a regular file of at most 1 MiB, after following symbolic links. A pipe, a device or a
/// directory is an error: reading one of them could wait forever.
///
/// A file on a file system that does not respond still blocks the caller.
pub fn read_file(path: impl AsRef<Path>) -> Result<Vec<u8>, ConfigError> {
    let path = path.as_ref();
    let name = path.display().to_string();

    let file = open_regular(path).map_err(|error| unreadable(&name, &error))?;
    read_bytes(file, &name)
}

/// Reads all bytes, if they are at most [`FILE_MAX`]. `file` is the name that errors show.
pub(super) fn read_bytes(reader: impl Read, file: &str) -> Result<Vec<u8>, ConfigError> {
    let mut bytes = Vec::new();
    let read = reader.take(FILE_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(file, &error))?;

    if bytes.len() > FILE_MAX {
        return Err(too_large(file));
    }
    Ok(bytes)
}

/// Opens a regular file without waiting.
fn open_regular(path: &Path) -> io::Result<File> {
    // Before opening it, because opening a device can have effects.
    require_regular(&fs::metadata(path)?)?;

    // Meanwhile a pipe may have replaced the file; opening it must not wait for a writer.
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nonblock)
        .open(path)?;
    require_regular(&file.metadata()?)?;
    Ok(file)
}

fn require_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let found = type_name(metadata.file_type());
    let message = format!("it is a {found}; expected a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

fn type_name(file_type: FileType) -> &'static str {
    if file_type.is_dir() {
        "directory"
    } else if file_type.is_fifo() {
        "pipe"
    } else if file_type.is_socket() {
        "socket"
    } else {
        "device"
    }
}

fn unreadable(file: &str, error: &io::Error) -> ConfigError {
    ConfigError::for_file(file, format_args!("cannot read the file: {error}"))
}

pub(super) fn too_large(file: &str) -> ConfigError {
    ConfigError::for_file(
        file,
        format_args!("the file is too large: at most {FILE_MAX} bytes (1 MiB) are allowed"),
    )
}
