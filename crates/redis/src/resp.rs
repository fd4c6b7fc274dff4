//! The protocol: commands to bytes, bytes to replies. Version 2, which every server speaks.
//!
//! What arrives is bounded before it is waited for: a header that announces more than any answer of
//! ours can be is an error at once, not memory.

use bytes::{Buf as _, Bytes, BytesMut};

/// The longest string that is waited for. The longest of ours is a cluster's map, far below.
const BULK_MAX: usize = 8 << 20;
/// The longest list. A map of a cluster in pieces of one slot has 16,384.
const LIST_MAX: usize = 1 << 17;
/// How deep lists may be nested. A cluster's map is 4 deep.
const DEPTH_MAX: usize = 8;
/// The longest line: an error, a status or a number.
const LINE_MAX: usize = 64 << 10;

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Status(Bytes),
    Error(Bytes),
    Number(i64),
    Text(Bytes),
    Nothing,
    List(Vec<Reply>),
}

/// What is not the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Garbage {
    #[error("the server sent something that is not a reply")]
    NotAReply,
    #[error("the server announced a reply that is too long")]
    TooLong,
}

/// Adds a command to what is to be sent.
pub(crate) fn write_command(out: &mut BytesMut, words: &[&[u8]]) {
    write_header(out, words.len());
    words.iter().for_each(|word| write_word(out, word));
}

/// Begins a command of so many words.
pub(crate) fn write_header(out: &mut BytesMut, words: usize) {
    write_line(out, b'*', words);
}

/// Adds a word to a command.
pub(crate) fn write_word(out: &mut BytesMut, word: &[u8]) {
    write_line(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

fn write_line(out: &mut BytesMut, mark: u8, mut number: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        // A remainder of ten fits into a byte.
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&[mark]);
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// Takes the first reply from what has arrived; `None` when it is not all there yet.
pub(crate) fn read_reply(arrived: &mut BytesMut) -> Result<Option<Reply>, Garbage> {
    let Some(length) = length_of(arrived, 0, 0)? else {
        return if arrived.len() > BULK_MAX + LINE_MAX {
            Err(Garbage::TooLong)
        } else {
            Ok(None)
        };
    };
    let mut whole = arrived.split_to(length).freeze();
    take(&mut whole).map(Some)
}

/// Where the reply that begins at `from` ends; `None` when it is not all there yet.
fn length_of(arrived: &[u8], from: usize, depth: usize) -> Result<Option<usize>, Garbage> {
    let Some((mark, line, end)) = line_at(arrived, from)? else {
        return Ok(None);
    };
    match mark {
        b'+' | b'-' | b':' => Ok(Some(end)),
        b'$' => match announced(line, BULK_MAX)? {
            None => Ok(Some(end)),
            Some(length) if arrived.len() < end + length + 2 => Ok(None),
            Some(length) if &arrived[end + length..end + length + 2] == b"\r\n" => {
                Ok(Some(end + length + 2))
            }
            Some(_) => Err(Garbage::NotAReply),
        },
        b'*' if depth < DEPTH_MAX => {
            let mut end = end;
            for _ in 0..announced(line, LIST_MAX)?.unwrap_or(0) {
                match length_of(arrived, end, depth + 1)? {
                    Some(next) => end = next,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        _ => Err(Garbage::NotAReply),
    }
}

/// A line's mark, what follows it, and where the next line begins.
type Line<'a> = (u8, &'a [u8], usize);

/// The line that begins at `from`; `None` when it is not all there yet.
fn line_at(arrived: &[u8], from: usize) -> Result<Option<Line<'_>>, Garbage> {
    let rest = &arrived[from..];
    let Some((mark, line)) = rest.split_first() else {
        return Ok(None);
    };
    if !b"+-:$*".contains(mark) {
        return Err(Garbage::NotAReply);
    }
    match line.iter().take(LINE_MAX).position(|byte| *byte == b'\r') {
        Some(length) if line.len() == length + 1 => Ok(None),
        Some(length) if line[length + 1] == b'\n' => {
            Ok(Some((*mark, &line[..length], from + length + 3)))
        }
        Some(_) => Err(Garbage::NotAReply),
        None if line.len() >= LINE_MAX => Err(Garbage::TooLong),
        None => Ok(None),
    }
}

/// The length that a header announces; `None` for nothing at all.
fn announced(line: &[u8], most: usize) -> Result<Option<usize>, Garbage> {
    match number(line)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) if length <= most => Ok(Some(length)),
            Ok(_) => Err(Garbage::TooLong),
            Err(_) => Err(Garbage::NotAReply),
        },
    }
}

fn number(line: &[u8]) -> Result<i64, Garbage> {
    std::str::from_utf8(line)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Garbage::NotAReply)
}

/// Takes a reply that is known to be all there.
fn take(whole: &mut Bytes) -> Result<Reply, Garbage> {
    let (mark, line, end) = line_at(whole, 0)?.ok_or(Garbage::NotAReply)?;
    let announced = match mark {
        b'$' => announced(line, BULK_MAX)?,
        b'*' => announced(line, LIST_MAX)?,
        b':' => {
            let number = number(line)?;
            whole.advance(end);
            return Ok(Reply::Number(number));
        }
        _ => Some(line.len()),
    };
    let Some(length) = announced else {
        whole.advance(end);
        return Ok(Reply::Nothing);
    };
    match mark {
        b'$' => {
            whole.advance(end);
            let text = whole.split_to(length);
            whole.advance(2);
            Ok(Reply::Text(text))
        }
        b'*' => {
            whole.advance(end);
            (0..length)
                .map(|_| take(whole))
                .collect::<Result<_, _>>()
                .map(Reply::List)
        }
        _ => {
            let line = whole.slice(1..=length);
            whole.advance(end);
            Ok(if mark == b'-' {
                Reply::Error(line)
            } else {
                Reply::Status(line)
            })
        }
    }
}

impl Reply {
    /// The text of a string or a status.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(bytes) | Self::Status(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    pub(crate) fn as_number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
