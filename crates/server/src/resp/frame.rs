//! Decodes commands from the bytes of a connection: arrays of bulk strings, as clients send them,
//! and inline commands, as people type them into `telnet`.
//!
//! Announced lengths are checked before anything of that length is awaited, so a client cannot make
//! the service buffer more than [`FRAME_MAX`] bytes.

use smallvec::SmallVec;

/// The most arguments of a command, including its name.
const ARGUMENTS_MAX: usize = 128;
/// The most bytes of an argument. Keys, names and tokens are far shorter.
const ARGUMENT_MAX: usize = 8 << 10;
/// The most bytes of a command.
pub(super) const FRAME_MAX: usize = 32 << 10;
/// The most bytes of a line that announces a number.
const HEADER_MAX: usize = 24;
/// What a request over HTTP starts with.
const HTTP_METHODS: [&[u8]; 10] = [
    b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE", b"PRI",
];

/// The arguments of a command, its name first. Empty for an empty line or array, which clients may
/// send and which get no reply.
pub(super) type Arguments<'b> = SmallVec<[&'b [u8]; 8]>;

/// Why received bytes are not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    /// The rest of the command has not arrived yet.
    #[error("incomplete command")]
    Incomplete,
    #[error("invalid multibulk length; a command has at most {ARGUMENTS_MAX} arguments")]
    Count,
    #[error("invalid bulk length; an argument has at most {ARGUMENT_MAX} bytes")]
    Length,
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    Marker(u8),
    #[error("expected CRLF after an argument; its length does not fit")]
    LineEnd,
    #[error("too big request; a command has at most {FRAME_MAX} bytes")]
    TooLong,
    #[error("unexpected byte 0x{0:02x}; is the client using TLS, or another protocol?")]
    Binary(u8),
    #[error("quotes in an inline command; send an array of bulk strings instead")]
    Quotes,
    #[error("this is not an HTTP port; use the address of --http")]
    Http,
}

/// Decodes the first command of the received bytes, and its length in bytes. `None` when it is not
/// complete yet.
pub(super) fn decode(received: &[u8]) -> Result<Option<(Arguments<'_>, usize)>, FrameError> {
    let mut rest = received;
    let arguments = match received.first() {
        None => return Ok(None),
        Some(b'*') => take_array(&mut rest),
        Some(_) => take_inline(&mut rest),
    };

    match arguments {
        Ok(arguments) => Ok(Some((arguments, received.len() - rest.len()))),
        Err(FrameError::Incomplete) if received.len() >= FRAME_MAX => Err(FrameError::TooLong),
        Err(FrameError::Incomplete) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the first command of the received bytes has not arrived completely.
pub(super) fn is_incomplete(received: &[u8]) -> bool {
    matches!(decode(received), Ok(None))
}

/// Takes a command from the beginning of the bytes.
fn take_array<'b>(rest: &mut &'b [u8]) -> Result<Arguments<'b>, FrameError> {
    // Clients may send a negative count, which is as empty as a count of 0.
    let count = take_number(rest, FrameError::Count)?.max(0);
    let count = usize::try_from(count).map_err(|_| FrameError::Count)?;
    if count > ARGUMENTS_MAX {
        return Err(FrameError::Count);
    }

    let mut bytes_left = FRAME_MAX;
    let mut arguments = Arguments::new();
    for _ in 0..count {
        match rest.first() {
            None => return Err(FrameError::Incomplete),
            Some(b'$') => {}
            Some(other) => return Err(FrameError::Marker(*other)),
        }
        let length = take_number(rest, FrameError::Length)?;
        let length = usize::try_from(length).map_err(|_| FrameError::Length)?;
        if length > ARGUMENT_MAX {
            return Err(FrameError::Length);
        }
        bytes_left = bytes_left.checked_sub(length).ok_or(FrameError::TooLong)?;
        arguments.push(take_bulk(rest, length)?);
    }
    Ok(arguments)
}

/// Takes a line with a marker and a number.
fn take_number(rest: &mut &[u8], invalid: FrameError) -> Result<i64, FrameError> {
    let end = rest.iter().take(HEADER_MAX).position(|byte| *byte == b'\r');
    let Some(end) = end else {
        let is_too_long = rest.len() >= HEADER_MAX;
        return Err(if is_too_long {
            invalid
        } else {
            FrameError::Incomplete
        });
    };

    let (line, after) = rest.split_at(end);
    let digits = std::str::from_utf8(&line[1..]).map_err(|_| invalid)?;
    if digits.starts_with('+') {
        return Err(invalid);
    }
    let number = digits.parse().map_err(|_| invalid)?;
    *rest = strip_line_end(after, invalid)?;
    Ok(number)
}

/// Takes an argument of this length, and the line end after it.
fn take_bulk<'b>(rest: &mut &'b [u8], length: usize) -> Result<&'b [u8], FrameError> {
    let bulk = rest.split_at_checked(length);
    let (text, after) = bulk.ok_or(FrameError::Incomplete)?;
    *rest = strip_line_end(after, FrameError::LineEnd)?;
    Ok(text)
}

fn strip_line_end(bytes: &[u8], invalid: FrameError) -> Result<&[u8], FrameError> {
    match bytes {
        [b'\r', b'\n', rest @ ..] => Ok(rest),
        [] | [b'\r'] => Err(FrameError::Incomplete),
        _ => Err(invalid),
    }
}

/// Takes a line of words. A web page can make a browser send lines that it chooses, but only after
/// the first line of an HTTP request, which ends the connection.
fn take_inline<'b>(rest: &mut &'b [u8]) -> Result<Arguments<'b>, FrameError> {
    let end = rest.iter().take(FRAME_MAX).position(|byte| *byte == b'\n');
    let line = &rest[..end.unwrap_or(rest.len().min(FRAME_MAX))];
    let is_binary = |byte: &&u8| byte.is_ascii_control() && !matches!(**byte, b'\r' | b'\t');
    if let Some(byte) = line.iter().find(is_binary) {
        return Err(FrameError::Binary(*byte));
    }
    let end = end.ok_or(FrameError::Incomplete)?;

    if line.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
        return Err(FrameError::Quotes);
    }
    let words = line.split(u8::is_ascii_whitespace);
    let words: Arguments<'_> = words.filter(|word| !word.is_empty()).collect();
    if words.first().is_some_and(|word| is_http(word)) {
        return Err(FrameError::Http);
    }
    if words.len() > ARGUMENTS_MAX {
        return Err(FrameError::Count);
    }
    *rest = &rest[end + 1..];
    Ok(words)
}

/// Whether a line starts like a request over HTTP, or like one of its header fields.
fn is_http(word: &[u8]) -> bool {
    let is_method = |method: &&[u8]| word.eq_ignore_ascii_case(method);
    HTTP_METHODS.iter().any(is_method) || word.ends_with(b":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(received: &[u8]) -> Option<Vec<String>> {
        let (arguments, bytes) = decode(received).expect("no error")?;
        assert_eq!(bytes, received.len());
        let word = |argument: &&[u8]| String::from_utf8_lossy(argument).into_owned();
        Some(arguments.iter().map(word).collect())
    }

    #[test]
    fn arrays_and_lines_are_commands() {
        let expected = Some(vec!["PING".to_owned(), "a b".to_owned()]);
        assert_eq!(words(b"*2\r\n$4\r\nPING\r\n$3\r\na b\r\n"), expected);
        let expected = Some(vec!["PING".to_owned(), "ab".to_owned()]);
        assert_eq!(words(b" PING  ab \r\n"), expected);
        assert_eq!(words(b"PING\tab\n"), expected);
        for empty in [&b"\r\n"[..], b"\n", b" \n", b"*0\r\n", b"*-1\r\n"] {
            assert_eq!(words(empty), Some(vec![]), "{empty:?}");
        }
    }

    #[test]
    fn every_part_of_a_command_waits_for_the_rest() {
        for whole in [
            &b"*2\r\n$4\r\nPING\r\n$3\r\na\r\n\r\n"[..],
            b"PING abc\r\n",
            b"*0\r\n",
        ] {
            for length in 0..whole.len() {
                assert_eq!(decode(&whole[..length]), Ok(None), "{length} of {whole:?}");
            }
            assert!(matches!(decode(whole), Ok(Some(_))), "{whole:?}");
        }
    }

    #[test]
    fn the_bounds_hold_before_the_bytes_arrive() {
        let error = |received: &[u8]| decode(received).unwrap_err();
        assert_eq!(error(b"*129\r\n"), FrameError::Count);
        assert_eq!(error(b"*9223372036854775808\r\n"), FrameError::Count);
        assert_eq!(error(b"*1\r\n$8193\r\n"), FrameError::Length);
        assert_eq!(error(&[b'*'; HEADER_MAX]), FrameError::Count);
        assert_eq!(error(&vec![b'a'; FRAME_MAX]), FrameError::TooLong);
        assert_eq!(decode(&vec![b'a'; FRAME_MAX - 1]), Ok(None));

        let mut long = b"*6\r\n".to_vec();
        for _ in 0..4 {
            long.extend_from_slice(b"$8192\r\n");
            long.extend_from_slice(&[b'a'; ARGUMENT_MAX]);
            long.extend_from_slice(b"\r\n");
        }
        long.extend_from_slice(b"$1\r\n");
        assert_eq!(error(&long), FrameError::TooLong);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(received in proptest::collection::vec(0_u8.., 0..200)) {
            drop(decode(&received));
            let mut array = b"*3\r\n$2\r\n".to_vec();
            array.extend_from_slice(&received);
            drop(decode(&array));
        }

        #[test]
        fn arguments_are_decoded_as_they_were_sent(
            sent in proptest::collection::vec(proptest::collection::vec(0_u8.., 0..40), 1..12)
        ) {
            let mut bytes = format!("*{}\r\n", sent.len()).into_bytes();
            for argument in &sent {
                bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
                bytes.extend_from_slice(argument);
                bytes.extend_from_slice(b"\r\n");
            }
            let (arguments, length) = decode(&bytes).unwrap().unwrap();
            assert_eq!(length, bytes.len());
            assert_eq!(arguments.as_slice(), sent.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }
}
