//! The Redis protocol, RESP version 2, which all servers speak: writes commands, parses replies.
//!
//! Announced lengths are checked before anything of that length is buffered. A header that
//! announces more than any expected reply needs is an error, so a faulty server cannot make us
//! use up memory.

use bytes::BytesMut;

/// Longest accepted bulk string, in bytes. Expected replies are far shorter.
const BULK_MAX: usize = 8 << 20;
/// Longest accepted array. A slot map with one entry for each slot has 16,384 elements.
const ARRAY_MAX: usize = 1 << 17;
/// Deepest accepted nesting of arrays. A slot map is nested 4 deep.
const DEPTH_MAX: usize = 8;
/// Longest accepted line (simple string, error or integer), in bytes.
const LINE_MAX: usize = 64 << 10;

/// A reply, or an element of a reply, borrowed from the received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RespValue<'a> {
    /// A bulk string or a simple string.
    Text(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Null,
    Array(Vec<Self>),
}

/// Why received bytes are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("invalid reply: incomplete")]
    Incomplete,
    #[error(
        "invalid reply: not in the Redis protocol; the endpoint must be a Redis or Valkey server"
    )]
    Malformed,
    #[error("invalid reply: too long")]
    TooLong,
}

/// Appends a command to the output buffer.
pub(crate) fn write_command(out: &mut BytesMut, arguments: &[&[u8]]) {
    write_array_header(out, arguments.len());
    for argument in arguments {
        write_argument(out, argument);
    }
}

/// Begins a command with this number of arguments, including the command's name.
pub(crate) fn write_array_header(out: &mut BytesMut, arguments: usize) {
    write_header(out, b"*", arguments);
}

/// Appends one argument of a command.
pub(crate) fn write_argument(out: &mut BytesMut, argument: &[u8]) {
    write_header(out, b"$", argument.len());
    out.extend_from_slice(argument);
    out.extend_from_slice(b"\r\n");
}

fn write_header(out: &mut BytesMut, marker: &[u8], number: usize) {
    out.extend_from_slice(marker);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Reads the first value of the received bytes, and its length in bytes. `None` when it is not
/// complete yet.
pub(crate) fn read_value(received: &[u8]) -> Result<Option<(RespValue<'_>, usize)>, ProtocolError> {
    let mut rest = received;
    match take_value(&mut rest, 0) {
        Ok(value) => Ok(Some((value, received.len() - rest.len()))),
        Err(ProtocolError::Incomplete) if received.len() > BULK_MAX + LINE_MAX => {
            Err(ProtocolError::TooLong)
        }
        Err(ProtocolError::Incomplete) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes a value from the beginning of the bytes.
fn take_value<'a>(rest: &mut &'a [u8], depth: usize) -> Result<RespValue<'a>, ProtocolError> {
    let (marker, line) = take_line(rest)?;

    let max = match marker {
        b'+' => return Ok(RespValue::Text(line)),
        b'-' => return Ok(RespValue::Error(line)),
        b':' => return parse_integer(line).map(RespValue::Integer),
        b'$' => BULK_MAX,
        b'*' if depth < DEPTH_MAX => ARRAY_MAX,
        _ => return Err(ProtocolError::Malformed),
    };
    let length = match parse_integer(line)? {
        -1 => return Ok(RespValue::Null),
        length => usize::try_from(length).map_err(|_| ProtocolError::Malformed)?,
    };
    if length > max {
        return Err(ProtocolError::TooLong);
    }

    if marker == b'$' {
        take_bulk(rest, length).map(RespValue::Text)
    } else {
        let elements = (0..length).map(|_| take_value(rest, depth + 1));
        elements.collect::<Result<_, _>>().map(RespValue::Array)
    }
}

/// Takes a line. Returns its marker and the text between marker and line end.
fn take_line<'a>(rest: &mut &'a [u8]) -> Result<(u8, &'a [u8]), ProtocolError> {
    let (marker, line) = rest.split_first().ok_or(ProtocolError::Incomplete)?;
    if !b"+-:$*".contains(marker) {
        return Err(ProtocolError::Malformed);
    }

    let end = line.iter().take(LINE_MAX).position(|byte| *byte == b'\r');
    let (text, after) = match end {
        Some(end) => line.split_at(end),
        None if line.len() >= LINE_MAX => return Err(ProtocolError::TooLong),
        None => return Err(ProtocolError::Incomplete),
    };
    *rest = strip_line_end(after)?;
    Ok((*marker, text))
}

/// Takes a bulk string of this length, and the line end after it.
fn take_bulk<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], ProtocolError> {
    let bulk = rest.split_at_checked(length);
    let (text, after) = bulk.ok_or(ProtocolError::Incomplete)?;
    *rest = strip_line_end(after)?;
    Ok(text)
}

fn strip_line_end(bytes: &[u8]) -> Result<&[u8], ProtocolError> {
    match bytes {
        [b'\r', b'\n', rest @ ..] => Ok(rest),
        [] | [b'\r'] => Err(ProtocolError::Incomplete),
        _ => Err(ProtocolError::Malformed),
    }
}

fn parse_integer(line: &[u8]) -> Result<i64, ProtocolError> {
    let text = std::str::from_utf8(line).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or(ProtocolError::Malformed)
}

impl RespValue<'_> {
    /// The text of a string, if it is UTF-8.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(bytes) => std::str::from_utf8(bytes).ok(),
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
