//! Reads lines from files and standard input, compressed with gzip or not.

mod lines;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::bufread::GzDecoder;

pub use lines::{LINE_MAX, LineChunk, LineReader, LogLine};

/// The first bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The size of the buffer for compressed data.
const GZIP_BUFFER: usize = 128 * 1024;

/// The most bytes that are read of what is not a file, before decompression: it may have no end.
const STREAM_MAX: u64 = 16 << 30;

/// An open log.
pub struct LogInput {
    lines: LineReader<Box<dyn Read>>,
    bytes_read: Rc<Cell<u64>>,
    size: Option<u64>,
    trailing_bytes: Rc<Cell<u64>>,
}

/// Bytes after the end of a gzip file, such as padding. They are not part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrailingBytes {
    /// The position of the first one in the file, from 0.
    pub position: u64,
    /// How many they are, at least 1.
    pub count: u64,
}

impl LogInput {
    /// Opens a log file. Compression is detected from the content, not from the file name.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            let kind = io::ErrorKind::IsADirectory;
            return Err(io::Error::new(kind, "is a directory; expected a file"));
        }
        if !metadata.is_file() {
            return Self::new(file, None);
        }
        // What is written meanwhile is left out: it may come faster than it is read.
        let size = metadata.len();
        Self::new(file.take(size), Some(size))
    }

    /// Reads the log from standard input.
    pub fn from_stdin() -> io::Result<Self> {
        Self::new(io::stdin(), None)
    }

    /// Reads the log from a reader. `size` is its length in bytes; without it, the log must end
    /// within 16 GiB.
    pub fn new(reader: impl Read + 'static, size: Option<u64>) -> io::Result<Self> {
        let bytes_read = Rc::new(Cell::new(0));
        let counting = CountingReader {
            reader,
            bytes_read: bytes_read.clone(),
            bytes_max: size.unwrap_or(STREAM_MAX),
        };

        let trailing_bytes = Rc::new(Cell::new(0));
        let (is_gzip, reader) = detect_gzip(counting)?;
        let reader: Box<dyn Read> = if is_gzip {
            let buffered = BufReader::with_capacity(GZIP_BUFFER, reader);
            Box::new(GzipReader::new(buffered, trailing_bytes.clone()))
        } else {
            Box::new(reader)
        };
        Ok(Self {
            lines: LineReader::new(reader),
            bytes_read,
            size,
            trailing_bytes,
        })
    }

    /// The next lines. `None` at the end.
    pub fn chunk(&mut self) -> io::Result<Option<LineChunk<'_>>> {
        self.lines.chunk()
    }

    /// Bytes read so far, before decompression.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.get()
    }

    /// After the end of a gzip file: the bytes behind it that were ignored, if there are any.
    pub fn trailing_bytes(&self) -> Option<TrailingBytes> {
        let count = self.trailing_bytes.get();
        (count > 0).then(|| TrailingBytes {
            position: self.bytes_read() - count,
            count,
        })
    }

    /// Total size in bytes before decompression, if known.
    pub const fn bytes_size(&self) -> Option<u64> {
        self.size
    }
}

/// Whether the data is compressed, and a reader that still starts with the bytes that tell.
fn detect_gzip<R: Read>(mut reader: R) -> io::Result<(bool, impl Read + use<R>)> {
    let mut first = Vec::new();
    reader
        .by_ref()
        .take(GZIP_MAGIC.len() as u64)
        .read_to_end(&mut first)?;
    Ok((first == GZIP_MAGIC, Cursor::new(first).chain(reader)))
}

/// Counts the bytes read through it.
struct CountingReader<R> {
    reader: R,
    bytes_read: Rc<Cell<u64>>,
    bytes_max: u64,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(into)?;
        let bytes_read = self.bytes_read.get() + count as u64;
        if bytes_read > self.bytes_max {
            let error = "it has no end within 16 GiB; save the part to replay as a file";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
        }
        self.bytes_read.set(bytes_read);
        Ok(count)
    }
}

/// The first bytes of a member: gzip, compressed with deflate, the only method there is.
const MEMBER_START: [u8; 3] = [0x1f, 0x8b, 0x08];

/// Reads the decompressed bytes of all members of a gzip file.
///
/// flate2's `MultiGzDecoder` fails at bytes that follow the last member, such as the padding of a
/// tape or of an encrypted file. Here they are counted and ignored, as by `gzip`.
struct GzipReader<R> {
    /// The current member, whose first bytes were read already. None at the end.
    member: Option<GzDecoder<Chain<Cursor<Vec<u8>>, R>>>,
    /// How many bytes follow the last member; 0 until its end.
    trailing_bytes: Rc<Cell<u64>>,
}

impl<R: BufRead> GzipReader<R> {
    fn new(reader: R, trailing_bytes: Rc<Cell<u64>>) -> Self {
        let nothing = Cursor::new(Vec::new());
        Self {
            member: Some(GzDecoder::new(nothing.chain(reader))),
            trailing_bytes,
        }
    }

    /// Continues after the end of a member: with the next one, or with counting what is left.
    fn end_member(&mut self, member: GzDecoder<Chain<Cursor<Vec<u8>>, R>>) -> io::Result<()> {
        let (_, mut reader) = member.into_inner().into_inner();
        let mut start = Vec::new();
        let length = MEMBER_START.len() as u64;
        reader.by_ref().take(length).read_to_end(&mut start)?;

        if start == MEMBER_START {
            let reader = Cursor::new(start).chain(reader);
            self.member = Some(GzDecoder::new(reader));
        } else {
            let rest = io::copy(&mut reader, &mut io::sink())?;
            self.trailing_bytes.set(start.len() as u64 + rest);
        }
        Ok(())
    }
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            if let Some(member) = self.member.take() {
                self.end_member(member)?;
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn lines(bytes: Vec<u8>) -> Vec<String> {
        read(&mut LogInput::new(Cursor::new(bytes), None).unwrap())
    }

    fn read(input: &mut LogInput) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(chunk) = input.chunk().unwrap() {
            for line in chunk {
                let LogLine::Complete(line) = line else {
                    panic!("{line:?}")
                };
                found.push(String::from_utf8_lossy(line).into_owned());
            }
        }
        found
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn compressed_and_plain_logs_have_the_same_lines() {
        assert_eq!(lines(b"a\nb\n".to_vec()), ["a", "b"]);
        assert_eq!(lines(gzip("a\nb\n")), ["a", "b"]);
        assert_eq!(lines(Vec::new()), [""; 0]);
        assert_eq!(lines(b"x".to_vec()), ["x"]);
    }

    #[test]
    fn concatenated_gzip_files_are_one_log() {
        assert_eq!(lines([gzip("a\n"), gzip("b\n")].concat()), ["a", "b"]);
    }

    #[test]
    fn bytes_after_a_gzip_file_are_ignored_and_counted() {
        let log = [gzip("a\n"), gzip("b\n")].concat();
        let end = log.len() as u64;

        for trailing in [
            &[0][..],
            &vec![0; 200_000],
            b"garbage",
            &GZIP_MAGIC,
            &[0x1f, 0x8b, 0x07, 0],
        ] {
            let bytes = Cursor::new([&log, trailing].concat());
            let mut input = LogInput::new(bytes, None).unwrap();
            assert_eq!(input.trailing_bytes(), None);

            assert_eq!(read(&mut input), ["a", "b"]);
            let expected = TrailingBytes {
                position: end,
                count: trailing.len() as u64,
            };
            assert_eq!(input.trailing_bytes(), Some(expected));
        }

        let mut input = LogInput::new(Cursor::new(log), None).unwrap();
        assert_eq!(read(&mut input), ["a", "b"]);
        assert_eq!(input.trailing_bytes(), None);
    }

    #[test]
    fn a_truncated_gzip_file_is_an_error() {
        let mut bytes = gzip(&"some words\n".repeat(1_000));
        bytes.truncate(bytes.len() / 2);
        let mut input = LogInput::new(Cursor::new(bytes), None).unwrap();
        let failed = std::iter::from_fn(|| match input.chunk() {
            Ok(None) => None,
            Ok(Some(_)) => Some(false),
            Err(_) => Some(true),
        });
        assert!(failed.take(2_000).any(|failed| failed));
    }
    #[test]
    fn a_stream_without_an_end_is_an_error_and_a_growing_file_is_not() {
        let mut input = LogInput::new(io::repeat(b'\n'), None).unwrap();
        input.bytes_read.set(STREAM_MAX - 1);
        let error = loop {
            match input.chunk() {
                Ok(chunk) => assert!(chunk.is_some()),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("16 GiB"), "{error}");

        let path = std::env::temp_dir().join(format!("tollgate-growing-{}", std::process::id()));
        std::fs::write(&path, "a\n").unwrap();
        let mut input = LogInput::open(&path).unwrap();
        std::fs::write(&path, "a\nb\n").unwrap();
        assert_eq!(read(&mut input), ["a"]);
        std::fs::remove_file(&path).unwrap();
    }
}
