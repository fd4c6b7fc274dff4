//! Bytes cut into lines in place: one buffer, whatever the size of the log or of its longest line.

use std::io::{self, ErrorKind, Read};

use memchr::{memchr, memrchr};

/// The longest line that is looked at.
pub const LINE_MAX: usize = 64 * 1024;
/// How much is read at once: what a core's own cache holds, so that lines are still near when they
/// are looked at.
const BUFFER: usize = 1 << 18;

/// A line without what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'b> {
    /// All of it.
    Whole(&'b [u8]),
    /// It is longer than [`LINE_MAX`]; only its beginning is kept.
    TooLong(&'b [u8]),
}

/// The lines of a reader.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    buffer: Box<[u8]>,
    /// What is read and not yet given out.
    start: usize,
    end: usize,
    /// The rest of a line that was too long is still to be passed over.
    is_skipping: bool,
}

/// Some lines that follow each other.
#[derive(Clone, Debug)]
pub struct Chunk<'b> {
    bytes: &'b [u8],
}

impl<R: Read> Lines<R> {
    /// The lines that a reader gives.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: vec![0; BUFFER].into(),
            start: 0,
            end: 0,
            is_skipping: false,
        }
    }

    /// The next lines, as many as are at hand and at least one; none at the end. Lines of nothing
    /// are lines too.
    pub fn chunk(&mut self) -> io::Result<Option<Chunk<'_>>> {
        loop {
            let unread = self.start..self.end;
            if self.is_skipping {
                let end = memchr(b'\n', &self.buffer[unread]);
                self.start = end.map_or(self.end, |at| self.start + at + 1);
                self.is_skipping = end.is_none();
            } else if let Some(last) = memrchr(b'\n', &self.buffer[unread.clone()]) {
                self.start += last + 1;
                return Ok(Some(Chunk {
                    bytes: &self.buffer[unread.start..self.start],
                }));
            } else if unread.len() > LINE_MAX {
                (self.start, self.is_skipping) = (self.end, true);
                return Ok(Some(Chunk {
                    bytes: &self.buffer[unread],
                }));
            }
            if !self.fill()? {
                return Ok(self.last());
            }
        }
    }

    /// What nothing ends: the last lines.
    fn last(&mut self) -> Option<Chunk<'_>> {
        let bytes = &self.buffer[self.start..self.end];
        self.start = self.end;
        (!bytes.is_empty()).then_some(Chunk { bytes })
    }

    /// Moves what is left to the front and reads on behind it; false at the end. There is room:
    /// what is left is at most a line, or was not looked at yet.
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

impl<'b> Iterator for Chunk<'b> {
    type Item = Line<'b>;

    #[inline]
    fn next(&mut self) -> Option<Line<'b>> {
        if self.bytes.is_empty() {
            return None;
        }
        let end = memchr(b'\n', self.bytes);
        let (line, rest) = end.map_or((self.bytes, &[][..]), |at| {
            (&self.bytes[..at], &self.bytes[at + 1..])
        });
        self.bytes = rest;
        let is_whole = line.len() <= LINE_MAX;
        Some(if is_whole {
            Line::Whole(without_return(line))
        } else {
            Line::TooLong(&line[..LINE_MAX])
        })
    }
}

/// Logs that were on Windows end their lines with two bytes.
#[inline]
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, as pipes do.
    struct Dripping<'b>(&'b [u8], usize);

    impl Read for Dripping<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn lines(bytes: &[u8], at_once: usize) -> Vec<(bool, usize)> {
        let mut lines = Lines::new(Dripping(bytes, at_once));
        let mut found = Vec::new();
        while let Some(chunk) = lines.chunk().unwrap() {
            found.extend(chunk.map(|line| match line {
                Line::Whole(line) => (true, line.len()),
                Line::TooLong(line) => (false, line.len()),
            }));
        }
        found
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
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
    fn a_line_that_is_too_long_is_cut_and_spoils_no_other() {
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
}
