//! The values of a cookie.
//!
//! Cookies are read as bytes, because a browser may send any. Each rule is one that some server
//! has: Express and Hono decode escapes, Flask and Django decode backslashes, Express takes any
//! last character for the closing quote and reads `j:"text"` as JSON, PHP takes `+` for a space and
//! `.` in a name for `_`, Python's standard library and Pyramid also end a cookie at white space,
//! commas and quotes.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use super::FieldValues;

/// The different values of a cookie, in all `Cookie` lines of a request.
///
/// Quotes and white space around a value are removed, and percent escapes, backslash escapes and
/// `+` are decoded. Bytes that are not UTF-8 become U+FFFD.
///
/// ```
/// use tollgate_subject::cookie_values;
///
/// let lines = [&b"theme=dark;session =\"a%62c\""[..], b"session=other"];
/// assert_eq!(cookie_values("session", lines).as_slice(), ["abc", "other"]);
/// ```
pub fn cookie_values<'v>(name: &str, lines: impl IntoIterator<Item = &'v [u8]>) -> FieldValues<'v> {
    let segments = lines
        .into_iter()
        .flat_map(|line| line.split(|byte| *byte == b';'));
    let pieces = segments.flat_map(|segment| {
        let segment = trimmed(segment);
        let is_end = |byte: &u8| is_space(*byte) || matches!(byte, b',' | b'"');
        std::iter::once(segment).chain(segment.split(is_end))
    });
    let pairs = pieces.filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        Some((trimmed(&pair[..at]), trimmed(&pair[at + 1..])))
    });

    pairs
        .filter(|(found, _)| is_named(found, name.as_bytes()))
        .flat_map(|(_, value)| readings(value))
        .collect()
}

/// Whether a cookie has this name. Some servers decode percent escapes in names, and PHP replaces
/// the characters that its variables cannot have.
fn is_named(found: &[u8], name: &[u8]) -> bool {
    let replaced = |byte: u8| match byte {
        b' ' | b'.' | b'[' => b'_',
        other => other,
    };
    found == name
        || percent_decode(found).eq(name.iter().copied())
        || percent_decode(found).map(replaced).eq(name.iter().copied())
}

/// What JavaScript or Python take for white space. Both read the bytes as Latin-1.
const fn is_space(byte: u8) -> bool {
    matches!(byte, 0x09..=0x0d | 0x1c..=0x20 | 0x85 | 0xa0)
}

/// Without the white space around it.
fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_space(*first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && is_space(*last)
    {
        text = rest;
    }
    text
}

/// The readings of a value: with an opening quote only, some servers take the last character for
/// the closing one; with `j:`, Express reads a text in JSON.
fn readings(value: &[u8]) -> impl Iterator<Item = Cow<'_, str>> {
    let (first, second) = match value {
        [b'"', quoted @ .., b'"'] => (decoded(&unescaped(quoted)).into(), None),
        [b'"', rest @ ..] => {
            let shorter = rest.split_last().map_or(rest, |(_, shorter)| shorter);
            let reading = |text: &[u8]| decoded(&unescaped(text)).into();
            (reading(shorter), Some(reading(rest)))
        }
        _ if value.iter().all(|byte| is_plain(*byte)) => (String::from_utf8_lossy(value), None),
        _ => (decoded(value).into(), None),
    };
    let json = first.strip_prefix("j:").and_then(json_text);
    [Some(first), second, json.map(Cow::Owned)]
        .into_iter()
        .flatten()
}

/// The text of a JSON string; `None` for any other JSON.
fn json_text(json: &str) -> Option<String> {
    let quoted = json.trim().strip_prefix('"')?.strip_suffix('"')?;
    let mut units = Vec::with_capacity(quoted.len());
    let mut rest = quoted.chars();

    while let Some(next) = rest.next() {
        if next != '\\' {
            units.extend_from_slice(next.encode_utf16(&mut [0; 2]));
            continue;
        }
        units.push(match rest.next()? {
            'b' => 0x08,
            'f' => 0x0c,
            'n' => 0x0a,
            'r' => 0x0d,
            't' => 0x09,
            'u' => {
                let digits = rest.as_str().get(..4)?;
                rest = rest.as_str().get(4..)?.chars();
                u16::from_str_radix(digits, 16).ok()?
            }
            other => u16::try_from(u32::from(other)).ok()?,
        });
    }
    String::from_utf16(&units).ok()
}

/// Whether a byte stays as it is.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii() && !matches!(byte, b'%' | b'+')
}

/// Decodes percent escapes and `+`.
fn decoded(value: &[u8]) -> String {
    let bytes: Vec<u8> = percent_decode(value).collect();
    // After the escapes, so that `+` and `%2B` are the same wherever `+` is not a space.
    String::from_utf8_lossy(&bytes).replace('+', " ")
}

/// Decodes the backslash escapes of a quoted value: `\` and three octal digits are a byte, and `\`
/// before any other byte is that byte.
fn unescaped(mut text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        (bytes, text) = match rest {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] if *first == b'\\' => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                (bytes, rest)
            }
            [escaped, rest @ ..] if *first == b'\\' => {
                bytes.push(*escaped);
                (bytes, rest)
            }
            _ => {
                bytes.push(*first);
                (bytes, rest)
            }
        };
    }
    bytes
}
