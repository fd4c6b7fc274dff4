//! Where lines come from: files and standard input, packed by gzip or not, one bounded line after
//! the other.
//!
//! Knows nothing of what stands on a line.

mod lines;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Chain, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

pub use lines::{Chunk, LINE_MAX, Line, Lines};

/// How every gzip file begins.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// How much of a packed file is read at once.
const PACKED_CHUNK: usize = 128 * 1024;

/// A log that is open.
pub struct Input {
    lines: Lines<Box<dyn Read>>,
    read: Rc<Cell<u64>>,
    size: Option<u64>,
}

impl Input {
    /// The log in a file. Whether it is packed is seen by how it begins, whatever its name says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if about.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a directory; name a file in it",
            ));
        }
        Self::new(file, about.is_file().then_some(about.len()))
    }

    /// The log on standard input.
    pub fn stdin() -> io::Result<Self> {
        Self::new(io::stdin(), None)
    }

    /// The log that a reader gives, of so many bytes if that is known.
    pub fn new(reader: impl Read + 'static, size: Option<u64>) -> io::Result<Self> {
        let read = Rc::new(Cell::new(0));
        let counted = Counted {
            reader,
            read: read.clone(),
        };
        let (magic, whole) = begin(counted)?;
        let reader: Box<dyn Read> = if magic == GZIP_MAGIC {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(
                PACKED_CHUNK,
                whole,
            )))
        } else {
            Box::new(whole)
        };
        Ok(Self {
            lines: Lines::new(reader),
            read,
            size,
        })
    }

    /// The next lines; none at the end.
    pub fn chunk(&mut self) -> io::Result<Option<Chunk<'_>>> {
        self.lines.chunk()
    }

    /// Bytes read so far, packed as they are.
    pub fn bytes_read(&self) -> u64 {
        self.read.get()
    }

    /// Bytes there are, if that is known.
    pub const fn bytes_size(&self) -> Option<u64> {
        self.size
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// A reader with what was read from it put back in front.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// The first two bytes, and everything from the beginning.
fn begin<R: Read>(mut reader: R) -> io::Result<([u8; 2], Whole<R>)> {
    let mut first = Vec::with_capacity(GZIP_MAGIC.len());
    reader
        .by_ref()
        .take(GZIP_MAGIC.len() as u64)
        .read_to_end(&mut first)?;
    let magic = first.as_slice().try_into().unwrap_or_default();
    Ok((magic, Cursor::new(first).chain(reader)))
}

/// Counts what is read.
struct Counted<R> {
    reader: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(into)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn lines(bytes: Vec<u8>) -> Vec<String> {
        let mut input = Input::new(Cursor::new(bytes), None).unwrap();
        let mut found = Vec::new();
        while let Some(chunk) = input.chunk().unwrap() {
            for line in chunk {
                let Line::Whole(line) = line else {
                    panic!("{line:?}")
                };
                found.push(String::from_utf8_lossy(line).into_owned());
            }
        }
        found
    }

    fn packed(text: &str) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn packed_or_not_the_lines_are_the_same() {
        assert_eq!(lines(b"a\nb\n".to_vec()), ["a", "b"]);
        assert_eq!(lines(packed("a\nb\n")), ["a", "b"]);
        assert_eq!(lines(Vec::new()), [""; 0]);
        assert_eq!(lines(b"x".to_vec()), ["x"]);
    }

    #[test]
    fn packed_files_that_were_put_together_are_one_log() {
        assert_eq!(lines([packed("a\n"), packed("b\n")].concat()), ["a", "b"]);
    }

    #[test]
    fn a_packed_file_that_breaks_off_is_an_error() {
        let mut bytes = packed(&"some words\n".repeat(1_000));
        bytes.truncate(bytes.len() / 2);
        let mut input = Input::new(Cursor::new(bytes), None).unwrap();
        let failed = std::iter::from_fn(|| match input.chunk() {
            Ok(None) => None,
            Ok(Some(_)) => Some(false),
            Err(_) => Some(true),
        });
        assert!(failed.take(2_000).any(|failed| failed));
    }
}
