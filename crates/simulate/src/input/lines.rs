//! Bytes cut into lines in place: one buffer, whatever the size of the log or of its longest line.

use std::io::{self, ErrorKind, Read};

use memchr::memchr;

/// The longest line that is looked at.
pub const LINE_MAX: usize = 64 * 1024;
/// How much is read at once.
const BUFFER: usize = 1 << 20;

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

impl<R: Read> Lines<R> {
    /// The lines that a reader gives.
    pub fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; BUFFER].into(), start: 0, end: 0, is_skipping: false }
    }

    /// The next line. Lines of nothing are lines too.
    #[inline]
    pub fn line(&mut self) -> io::Result<Option<Line<'_>>> {
        if !self.is_skipping
            && let Some(length) = memchr(b'\n', &self.buffer[self.start..self.end])
            && length <= LINE_MAX
        {
            let from = self.start;
            self.start += length + 1;
            return Ok(Some(Line::Whole(without_return(&self.buffer[from..from + length]))));
        }
        self.line_at_edge()
    }

    /// A line that is not whole in the buffer yet, or too long, or the last one.
    #[cold]
    fn line_at_edge(&mut self) -> io::Result<Option<Line<'_>>> {
        if self.is_skipping && !self.skip()? {
            return Ok(None);
        }
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(length) = memchr(b'\n', &unread[searched..]).map(|at| searched + at) {
                let from = self.start;
                self.start += length + 1;
                return Ok(Some(self.cut(from, length)));
            }
            searched = unread.len();
            if searched > LINE_MAX {
                self.is_skipping = true;
                let from = self.start;
                self.start = self.end;
                return Ok(Some(Line::TooLong(&self.buffer[from..from + LINE_MAX])));
            }
            if !self.fill()? {
                let (from, length) = (self.start, searched);
                self.start = self.end;
                return Ok((length > 0).then(|| self.cut(from, length)));
            }
        }
    }

    fn cut(&self, from: usize, length: usize) -> Line<'_> {
        if length > LINE_MAX {
            Line::TooLong(&self.buffer[from..from + LINE_MAX])
        } else {
            Line::Whole(without_return(&self.buffer[from..from + length]))
        }
    }

    /// Passes over the rest of a line; false when there is nothing after it.
    fn skip(&mut self) -> io::Result<bool> {
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[self.start..self.end]) {
                self.start += at + 1;
                self.is_skipping = false;
                return Ok(true);
            }
            self.start = self.end;
            if !self.fill()? {
                self.is_skipping = false;
                return Ok(false);
            }
        }
    }

    /// Moves what is left to the front and reads on behind it; false at the end. What is left is at most [`LINE_MAX`].
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
        while let Some(line) = lines.line().unwrap() {
            found.push(match line {
                Line::Whole(line) => (true, line.len()),
                Line::TooLong(line) => (false, line.len()),
            });
        }
        found
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
        for at_once in [1, 2, 7, BUFFER] {
            assert_eq!(lines(b"one\r\n\nthree", at_once), [(true, 3), (true, 0), (true, 5)]);
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
