//! What servers, proxies and frameworks may do to a path before they look for its handler.
//!
//! Each step is one such habit, on the whole text. A step either shortens the text or leaves fewer
//! backslashes or upper-case letters in it, so no chain of steps goes on forever.

use std::borrow::Cow;

use super::escape;

/// What ends a path that has been decoded: the query, the fragment, the end of a C string, and the
/// end of a request line.
const ENDS: [char; 5] = ['?', '#', '\0', '\r', '\n'];
/// What follows the path in a request line.
const VERSION: &str = " HTTP/";

/// The distance of a full-width character from its ASCII character.
const FULL_WIDTH: u32 = 0xfee0;

/// All steps: the signs without which a step changes nothing, and what it does.
pub(super) const STEPS: [(Signs, Rewrite); 13] = [
    (ORIGIN, remove_origin),
    (ESCAPE, |text, out| decode(text, |_| true, out)),
    // Apache and Kestrel decode everything except an encoded slash.
    (ESCAPED_SLASH, |text, out| {
        decode(text, |byte| byte != b'/', out);
    }),
    // Bottle leaves out what is not UTF-8.
    (UNICODE, |text, out| {
        let bytes = decode_bytes(text, |_| true);
        out.extend(bytes.utf8_chunks().map(|chunk| chunk.valid()));
    }),
    (UNICODE, decode_leniently),
    (BACKSLASH, |text, out| {
        out.push_str(&text.replace('\\', "/"));
    }),
    (DOUBLE_SLASH, merge_slashes),
    (DOT, remove_dot_segments),
    (SEMICOLON, |text, out| {
        rewrite_segments(text, |name| name.split(';').next(), out);
    }),
    (END, |text, out| {
        let end = text.rfind(ENDS).max(text.rfind(VERSION));
        out.push_str(&text[..end.unwrap_or(text.len())]);
    }),
    // WHATWG removes tabs and line ends; others remove every control character.
    (CONTROL, |text, out| {
        out.extend(text.chars().filter(|c| !c.is_ascii_control()));
    }),
    (BLANK, |text, out| out.push_str(text.trim_matches(is_blank))),
    (TRAILING, |text, out| {
        rewrite_segments(text, |name| Some(without_trailing_dots(name)), out);
    }),
];

/// Writes a rewritten text to an empty buffer.
type Rewrite = fn(&str, &mut String);

/// The kinds of characters in a text that steps act on, one bit each. One scan saves most of the
/// steps.
pub(super) type Signs = u16;

/// It does not start with exactly one slash.
const ORIGIN: Signs = 1;
const ESCAPE: Signs = 1 << 1;
/// A character beyond ASCII, or the escape of one.
const UNICODE: Signs = 1 << 2;
const BACKSLASH: Signs = 1 << 3;
const DOUBLE_SLASH: Signs = 1 << 4;
/// A segment that starts with a dot.
const DOT: Signs = 1 << 5;
const SEMICOLON: Signs = 1 << 6;
/// One of [`ENDS`], or perhaps [`VERSION`].
const END: Signs = 1 << 7;
/// An ASCII control character.
const CONTROL: Signs = 1 << 8;
/// White space or a control character, perhaps beyond ASCII.
const BLANK: Signs = 1 << 9;
/// A segment that ends with a dot or a space.
const TRAILING: Signs = 1 << 10;
const ESCAPED_SLASH: Signs = 1 << 11;

/// The signs that a byte alone is, as a table, because it is looked up for every byte.
const BYTE_SIGNS: [Signs; 256] = {
    let mut signs = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        signs[byte] = match byte {
            0x00 | 0x0a | 0x0d => END | CONTROL | BLANK,
            ..0x20 | 0x7f => CONTROL | BLANK,
            0x20 => END | BLANK,
            0x23 | 0x3f => END,
            0x3b => SEMICOLON,
            0x5c => BACKSLASH,
            0x80.. => UNICODE | BLANK,
            _ => 0,
        };
        byte += 1;
    }
    signs
};

/// The signs of a text.
pub(super) fn scan(text: &str) -> Signs {
    let bytes = text.as_bytes();
    let mut signs = 0;
    if !text.starts_with('/') || text.starts_with("//") {
        signs |= ORIGIN;
    }

    // The start of the text counts as a slash, but not as one before another slash.
    let mut previous = 0;
    for (at, byte) in bytes.iter().enumerate() {
        signs |= BYTE_SIGNS[usize::from(*byte)];
        signs |= match (previous, byte) {
            (b'/', b'/') => DOUBLE_SLASH,
            (b'.' | b' ', b'/') => TRAILING,
            (b'/' | 0, b'.') => DOT,
            (_, b'%') => escape_signs(&bytes[at + 1..]),
            _ => 0,
        };
        previous = *byte;
    }

    if matches!(previous, b'.' | b' ') {
        signs |= TRAILING;
    }
    signs
}

/// The signs of what follows a percent sign.
const fn escape_signs(digits: &[u8]) -> Signs {
    match digits {
        [b'2', b'f' | b'F', ..] => ESCAPE | ESCAPED_SLASH,
        [b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F' | b'u' | b'U', ..] => ESCAPE | UNICODE,
        _ => ESCAPE,
    }
}

/// Removes a scheme with the slashes after it, or else a host: what is before the path of
/// `http://host/path`, `//user@host/path` and `host/path`.
fn remove_origin(text: &str, out: &mut String) {
    let scheme = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
    if let Some(end) = scheme
        && let Some(rest) = text[end..].strip_prefix(':')
        && end > 0
    {
        out.push_str(rest.trim_start_matches('/'));
        return;
    }

    let authority = text.trim_start_matches('/');
    let path = authority.find('/').and_then(|end| authority.get(end..));
    out.push_str(path.unwrap_or_default());
}

/// Decodes the escapes of the bytes that are wanted. What is not UTF-8 then is replaced.
fn decode(text: &str, is_wanted: impl Fn(u8) -> bool, out: &mut String) {
    let bytes = decode_bytes(text, is_wanted);
    out.push_str(&String::from_utf8_lossy(&bytes));
}

fn decode_bytes(text: &str, is_wanted: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();

    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let (before, escaped) = rest.split_at(at);
        bytes.extend_from_slice(before);
        let decoded = escape(escaped).filter(|byte| is_wanted(*byte));
        bytes.push(decoded.unwrap_or(b'%'));
        rest = &escaped[if decoded.is_some() { 3 } else { 1 }..];
    }
    bytes.extend_from_slice(rest);
    bytes
}

/// Decodes all escapes as the most lenient servers do: `%u002f`, overlong UTF-8 and full-width
/// characters become what they look like, letters become lower-case, and other bytes are left out.
fn decode_leniently(text: &str, out: &mut String) {
    let text = unescape_utf16(text);
    let bytes = decode_bytes(&text, |_| true);
    let mut rest = &bytes[..];

    while let [first, after @ ..] = rest {
        if first.is_ascii() {
            out.push(char::from(*first));
            rest = after;
            continue;
        }

        let length = match first {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            _ => 1,
        };
        match rest.get(..length).and_then(code_point) {
            Some(c) => {
                fold_char(c, out);
                rest = &rest[length..];
            }
            None => rest = after,
        }
    }
}

/// The character of a UTF-8 sequence that may be longer than it has to be. `None` if it is invalid.
fn code_point(sequence: &[u8]) -> Option<char> {
    let (first, continuation) = sequence.split_first()?;
    let is_continuation = |byte: &u8| byte & 0xc0 == 0x80;
    if continuation.is_empty() || !continuation.iter().all(is_continuation) {
        return None;
    }

    let start = u32::from(*first) & (0x7f >> sequence.len());
    let code = continuation
        .iter()
        .fold(start, |code, byte| code << 6 | u32::from(byte & 0x3f));
    char::from_u32(code)
}

/// Appends a character in lower case, or as the ASCII character that it resembles: some servers
/// treat them alike.
fn fold_char(c: char, out: &mut String) {
    match c {
        ..'\u{80}' => out.push(c),
        '\u{ff01}'..='\u{ff5e}' => out.extend(char::from_u32(u32::from(c) - FULL_WIDTH)),
        '\u{17f}' => out.push('s'),
        '\u{2024}' | '\u{fe52}' | '\u{ff61}' | '\u{3002}' => out.push('.'),
        '\u{2025}' => out.push_str(".."),
        '\u{2044}' | '\u{2215}' => out.push('/'),
        '\u{2216}' | '\u{fe68}' => out.push('\\'),
        _ => out.extend(c.to_lowercase()),
    }
}

/// Decodes the escapes of Microsoft's servers, such as `%u002f`.
fn unescape_utf16(text: &str) -> Cow<'_, str> {
    let decode = |escape: &str| {
        let digits = escape.get(..4)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
        char::from_u32(code)
    };

    let mut pieces = text.split("%u").flat_map(|piece| piece.split("%U"));
    let Some(first) = pieces.next().filter(|first| first.len() < text.len()) else {
        return Cow::Borrowed(text);
    };

    let mut unescaped = first.to_owned();
    for piece in pieces {
        if let Some(c) = decode(piece) {
            unescaped.push(c);
            unescaped += &piece[4..];
        } else {
            unescaped += "%u";
            unescaped += piece;
        }
    }
    Cow::Owned(unescaped)
}

fn merge_slashes(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find("//") {
        let (before, slashes) = rest.split_at(at + 1);
        out.push_str(before);
        rest = slashes.trim_start_matches('/');
    }
    out.push_str(rest);
}

/// Resolves `.` and `..` as RFC 3986 does: an empty segment counts as a segment.
fn remove_dot_segments(text: &str, out: &mut String) {
    let path = text.strip_prefix('/').unwrap_or(text);
    let mut ends_in_dots = false;

    for segment in path.split('/') {
        ends_in_dots = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => out.truncate(out.rfind('/').unwrap_or(0)),
            _ => {
                out.push('/');
                out.push_str(segment);
            }
        }
    }
    if ends_in_dots {
        out.push('/');
    }
}

/// Rewrites the text of each segment.
fn rewrite_segments<'t>(
    text: &'t str,
    rewrite: impl Fn(&'t str) -> Option<&'t str>,
    out: &mut String,
) {
    for (at, segment) in text.split('/').enumerate() {
        if at > 0 {
            out.push('/');
        }
        out.push_str(rewrite(segment).unwrap_or_default());
    }
}

/// Windows ignores dots and spaces at the end of a name.
fn without_trailing_dots(segment: &str) -> &str {
    let dots = segment.trim_end_matches(' ');
    if dots.bytes().all(|byte| byte == b'.') {
        dots
    } else {
        segment.trim_end_matches(['.', ' '])
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control() || c == '\u{feff}'
}
