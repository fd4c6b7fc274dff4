//! Splits a stream into lines in place. One fixed buffer, whatever the length of the log or of its
//! lines.

use std::io::{self, ErrorKind, Read};

use memchr::{memchr, memrchr};

/// The maximum length of a line in bytes.
pub const LINE_MAX: usize = 64 * 1024;
/// A line that is longer is an error: the input may have no end.
const SKIP_MAX: usize = 1 << 30;
/// The size of the buffer. It fits into the cache of a core, so that lines are still cached when
/// they are parsed.
const BUFFER: usize = 1 << 18;

/// A line without its line ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLine<'b> {
    /// A complete line.
    Complete(&'b [u8]),
    /// The first [`LINE_MAX`] bytes of a longer line.
    TooLong(&'b [u8]),
}

/// Reads the lines of a stream.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    buffer: Box<[u8]>,
    /// The bytes from `start` to `end` were read but not returned yet.
    start: usize,
    end: usize,
    /// Whether the rest of a line that is too long still has to be skipped.
    is_skipping: bool,
    /// How many bytes of that line were skipped.
    skipped: usize,
}

/// Consecutive lines.
#[derive(Clone, Debug)]
pub struct LineChunk<'b> {
    bytes: &'b [u8],
}

impl LineChunk<'_> {
    /// Bytes of the lines that are not taken yet.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl<R: Read> LineReader<R> {
    /// Reads the lines of `reader`.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: vec![0; BUFFER].into(),
            start: 0,
            end: 0,
            is_skipping: false,
            skipped: 0,
        }
    }

    /// The next lines: all that are buffered, and at least one. `None` at the end. Blank lines are
    /// included.
    pub fn chunk(&mut self) -> io::Result<Option<LineChunk<'_>>> {
        loop {
            let unread = &self.buffer[self.start..self.end];
            if self.is_skipping {
                let end = memchr(b'\n', unread);
                self.skipped += unread.len();
                if end.is_none() && self.skipped > SKIP_MAX {
                    let error = "a line is longer than 1 GiB; expected an access log";
                    return Err(io::Error::new(ErrorKind::InvalidData, error));
                }
                self.start = end.map_or(self.end, |at| self.start + at + 1);
                self.is_skipping = end.is_none();
            } else if let Some(last) = memrchr(b'\n', unread) {
                return Ok(self.take_until(self.start + last + 1));
            } else if unread.len() > LINE_MAX {
                self.is_skipping = true;
                self.skipped = 0;
                return Ok(self.take_until(self.end));
            }

            // The last line of a log may have no line ending.
            if !self.fill()? {
                return Ok(self.take_until(self.end));
            }
        }
    }

    /// The unread bytes up to an index, which are read now. `None` if there are none.
    fn take_until(&mut self, end: usize) -> Option<LineChunk<'_>> {
        let bytes = &self.buffer[self.start..end];
        self.start = end;
        (!bytes.is_empty()).then_some(LineChunk { bytes })
    }

    /// Moves the unread bytes to the front and reads more behind them. Returns false at the end.
    /// There is always room, as at most one incomplete line is left.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);

        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<'b> Iterator for LineChunk<'b> {
    type Item = LogLine<'b>;

    #[inline]
    fn next(&mut self) -> Option<LogLine<'b>> {
        if self.bytes.is_empty() {
            return None;
        }

        let end = memchr(b'\n', self.bytes);
        let (line, rest) = end.map_or((self.bytes, &[][..]), |at| {
            (&self.bytes[..at], &self.bytes[at + 1..])
        });
        self.bytes = rest;

        Some(if line.len() <= LINE_MAX {
            // Windows line endings have a carriage return too.
            LogLine::Complete(line.strip_suffix(b"\r").unwrap_or(line))
        } else {
            LogLine::TooLong(&line[..LINE_MAX])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a few bytes at a time, like a pipe.
    struct SlowReader<'b>(&'b [u8], usize);

    impl Read for SlowReader<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn lines(bytes: &[u8], at_once: usize) -> Vec<(bool, usize)> {
        let mut lines = LineReader::new(SlowReader(bytes, at_once));
        let mut found = Vec::new();
        while let Some(chunk) = lines.chunk().unwrap() {
            found.extend(chunk.map(|line| match line {
                LogLine::Complete(line) => (true, line.len()),
                LogLine::TooLong(line) => (false, line.len()),
            }));
        }
        found
    }

    #[test]
    fn lines_are_complete_however_they_arrive() {
        for at_once in [1, 2, 7, BUFFER] {
            assert_eq!(
                lines(b"one\r\n\nthree", at_once),
                [(true, 3), (true, 0), (true, 5)]
            );
            assert_eq!(lines(b"a\n", at_once), [(true, 1)]);
            assert_eq!(lines(b"", at_once), []);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_and_affects_no_other() {
        let longest = "x".repeat(LINE_MAX);
        for at_once in [4_096, BUFFER] {
            for too_long in [LINE_MAX + 1, BUFFER - 1, BUFFER, BUFFER + 1, 3 * BUFFER] {
                let text = format!("first\n{}\n{longest}\nlast", "y".repeat(too_long));
                let found = lines(text.as_bytes(), at_once);
                let expected = [(true, 5), (false, LINE_MAX), (true, LINE_MAX), (true, 4)];
                assert_eq!(found, expected, "{too_long} bytes, {at_once} at once");
            }
            let unended = lines("z".repeat(2 * BUFFER).as_bytes(), at_once);
            assert_eq!(unended, [(false, LINE_MAX)]);
        }
    }
    #[test]
    fn a_line_without_an_end_is_an_error() {
        let mut lines = LineReader::new(io::repeat(0));
        lines.skipped = SKIP_MAX - 2 * BUFFER;
        lines.is_skipping = true;
        let error = lines.chunk().unwrap_err();
        assert!(error.to_string().contains("1 GiB"), "{error}");
    }
}
