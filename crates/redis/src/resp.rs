//! The Redis protocol, RESP version 2, which all servers speak: writes commands, parses replies.
//!
//! Announced lengths are checked before anything of that length is buffered. A header that
//! announces more than any expected reply needs is an error, so a faulty server cannot make us
//! use up memory.

use bytes::{Buf as _, Bytes, BytesMut};

/// Longest accepted bulk string, in bytes. Expected replies are far shorter.
const BULK_MAX: usize = 8 << 20;
/// Longest accepted array. A slot map with one entry for each slot has 16,384 elements.
const ARRAY_MAX: usize = 1 << 17;
/// Deepest accepted nesting of arrays. A slot map is nested 4 deep.
const DEPTH_MAX: usize = 8;
/// Longest accepted line (simple string, error or integer), in bytes.
const LINE_MAX: usize = 64 << 10;

/// A reply, or an element of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RespValue {
    Simple(Bytes),
    Error(Bytes),
    Integer(i64),
    Bulk(Bytes),
    Null,
    Array(Vec<RespValue>),
}

/// The server sent bytes that violate the protocol or our bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("invalid reply: not in the Redis protocol")]
    Malformed,
    #[error("invalid reply: too long")]
    TooLong,
}

/// Appends a command to the output buffer.
pub(crate) fn write_command(out: &mut BytesMut, arguments: &[&[u8]]) {
    write_array_header(out, arguments.len());
    arguments
        .iter()
        .for_each(|argument| write_argument(out, argument));
}

/// Begins a command with this number of arguments, including the command's name.
pub(crate) fn write_array_header(out: &mut BytesMut, arguments: usize) {
    write_header(out, b'*', arguments);
}

/// Appends one argument of a command.
pub(crate) fn write_argument(out: &mut BytesMut, argument: &[u8]) {
    write_header(out, b'$', argument.len());
    out.extend_from_slice(argument);
    out.extend_from_slice(b"\r\n");
}

fn write_header(out: &mut BytesMut, marker: u8, mut number: usize) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        // A decimal digit fits into a byte.
        digits[start] = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        if number == 0 {
            break;
        }
    }

    out.extend_from_slice(&[marker]);
    out.extend_from_slice(&digits[start..]);
    out.extend_from_slice(b"\r\n");
}

/// Removes the first value from the received bytes. `None` when it is not complete yet.
pub(crate) fn read_value(received: &mut BytesMut) -> Result<Option<RespValue>, ProtocolError> {
    let Some(length) = value_end(received, 0, 0)? else {
        return if received.len() > BULK_MAX + LINE_MAX {
            Err(ProtocolError::TooLong)
        } else {
            Ok(None)
        };
    };

    let mut complete = received.split_to(length).freeze();
    take_value(&mut complete).map(Some)
}

/// Finds the end of the value that begins at `start`. `None` when it is not complete yet.
fn value_end(received: &[u8], start: usize, depth: usize) -> Result<Option<usize>, ProtocolError> {
    let Some((marker, line, end)) = read_line(received, start)? else {
        return Ok(None);
    };

    match marker {
        b'+' | b'-' | b':' => Ok(Some(end)),
        b'$' => match parse_length(line, BULK_MAX)? {
            None => Ok(Some(end)),
            Some(length) if received.len() < end + length + 2 => Ok(None),
            Some(length) if &received[end + length..end + length + 2] == b"\r\n" => {
                Ok(Some(end + length + 2))
            }
            Some(_) => Err(ProtocolError::Malformed),
        },
        b'*' if depth < DEPTH_MAX => {
            let mut end = end;
            for _ in 0..parse_length(line, ARRAY_MAX)?.unwrap_or(0) {
                match value_end(received, end, depth + 1)? {
                    Some(next) => end = next,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        _ => Err(ProtocolError::Malformed),
    }
}

/// The marker of a line, the rest of the line, and the index at which the next line begins.
type HeaderLine<'a> = (u8, &'a [u8], usize);

/// Reads the line that begins at `start`. `None` when it is not complete yet.
fn read_line(received: &[u8], start: usize) -> Result<Option<HeaderLine<'_>>, ProtocolError> {
    let Some((marker, line)) = received[start..].split_first() else {
        return Ok(None);
    };
    if !b"+-:$*".contains(marker) {
        return Err(ProtocolError::Malformed);
    }

    match line.iter().take(LINE_MAX).position(|byte| *byte == b'\r') {
        Some(length) if line.len() == length + 1 => Ok(None),
        Some(length) if line[length + 1] == b'\n' => {
            Ok(Some((*marker, &line[..length], start + length + 3)))
        }
        Some(_) => Err(ProtocolError::Malformed),
        None if line.len() >= LINE_MAX => Err(ProtocolError::TooLong),
        None => Ok(None),
    }
}

/// Parses the length of a bulk string or an array. `None` for a null value, which has length -1.
fn parse_length(line: &[u8], max: usize) -> Result<Option<usize>, ProtocolError> {
    match parse_integer(line)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) if length <= max => Ok(Some(length)),
            Ok(_) => Err(ProtocolError::TooLong),
            Err(_) => Err(ProtocolError::Malformed),
        },
    }
}

fn parse_integer(line: &[u8]) -> Result<i64, ProtocolError> {
    std::str::from_utf8(line)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(ProtocolError::Malformed)
}

/// Removes the first value from bytes that are known to contain all of it.
fn take_value(complete: &mut Bytes) -> Result<RespValue, ProtocolError> {
    let (marker, line, end) = read_line(complete, 0)?.ok_or(ProtocolError::Malformed)?;
    let length = match marker {
        b'$' => parse_length(line, BULK_MAX)?,
        b'*' => parse_length(line, ARRAY_MAX)?,
        b':' => {
            let number = parse_integer(line)?;
            complete.advance(end);
            return Ok(RespValue::Integer(number));
        }
        _ => Some(line.len()),
    };
    let Some(length) = length else {
        complete.advance(end);
        return Ok(RespValue::Null);
    };

    match marker {
        b'$' => {
            complete.advance(end);
            let text = complete.split_to(length);
            complete.advance(2);
            Ok(RespValue::Bulk(text))
        }
        b'*' => {
            complete.advance(end);
            (0..length)
                .map(|_| take_value(complete))
                .collect::<Result<_, _>>()
                .map(RespValue::Array)
        }
        _ => {
            let line = complete.slice(1..=length);
            complete.advance(end);
            Ok(if marker == b'-' {
                RespValue::Error(line)
            } else {
                RespValue::Simple(line)
            })
        }
    }
}

impl RespValue {
    /// The text of a bulk or simple string, if it is UTF-8.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Bulk(bytes) | Self::Simple(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    pub(crate) fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
