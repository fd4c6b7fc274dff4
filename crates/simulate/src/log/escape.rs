//! Decodes the escapes that servers write in log lines.

use std::borrow::Cow;

use memchr::memchr;

/// Decodes the escapes of a text: `\"`, `\\`, `\x22`, `\n`, `\t` and `\r`.
#[inline]
pub(super) fn unescape(text: &str) -> Cow<'_, str> {
    if memchr(b'\\', text.as_bytes()).is_none() {
        Cow::Borrowed(text)
    } else {
        rewrite(text).into()
    }
}

#[cold]
fn rewrite(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();

    while let [first, after @ ..] = rest {
        let (byte, length) = if *first == b'\\' {
            decode_escape(after)
        } else {
            (*first, 0)
        };
        bytes.push(byte);
        rest = &after[length..];
    }

    String::from_utf8_lossy(&bytes).into_owned()
}

/// The decoded byte of an escape, and the number of bytes after the backslash.
fn decode_escape(after: &[u8]) -> (u8, usize) {
    let digit = |byte: u8| char::from(byte).to_digit(16);

    match after {
        [b'x', high, low, ..] => {
            let digits = digit(*high).zip(digit(*low));
            let byte = digits.and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
            byte.map_or((b'\\', 0), |byte| (byte, 3))
        }
        [b'n', ..] => (b'\n', 1),
        [b't', ..] => (b'\t', 1),
        [b'r', ..] => (b'\r', 1),
        [byte @ (b'"' | b'\\'), ..] => (*byte, 1),
        _ => (b'\\', 0),
    }
}
