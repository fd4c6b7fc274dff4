//! Normalises paths, and finds out what else they may mean.

mod readings;
mod steps;

use std::borrow::Cow;

use percent_encoding::percent_encode_byte;

pub use readings::PathReadings;

/// Normalises a path, so that all spellings that mean the same become equal.
///
/// This is the one reading of a path that most servers agree on, and the spelling of patterns. Where
/// servers disagree, [`PathReadings`] has the other readings too; limits are matched against those.
///
/// * The query (`?`), the fragment (`#`), and the scheme and host of `https://host/path` are
///   removed.
/// * `/` and `\` separate segments, because browsers and some servers treat `\` as `/`. Several
///   separators in a row count as one.
/// * `;` and everything after it in a segment is removed: these are parameters, not part of the
///   name.
/// * Percent-encoded letters, digits, `-`, `.`, `_` and `~` are decoded. Other escapes stay, in
///   upper case: `%2F` is a slash within a name, and `%252e` is the text `%2e`, never a dot.
///   Characters that are not allowed in a path, such as spaces, control characters and non-ASCII
///   letters, are percent-encoded. So is a `%` that does not start an escape.
/// * `.` and `..` are resolved and never go above the root. Empty segments are removed first:
///   `/a//../b` is `/b`.
/// * The result starts with `/` and does not end with `/` unless it is the root. So a pattern for
///   `/auth/login` also matches `/auth/login/`.
///
/// The case of letters is kept; [`Glob`](crate::Glob) decides whether it matters.
///
/// Normalising is idempotent and takes one pass. A path that is already normal is borrowed.
///
/// ```
/// use std::borrow::Cow;
/// use tollgate_subject::normalise;
///
/// assert_eq!(normalise("//x/%2e%2E;v=1/auth\\%6Cogin/?user=ann"), "/auth/login");
/// assert_eq!(normalise("/../%252e%252e/caf\u{e9} 7%"), "/%252e%252e/caf%C3%A9%207%25");
/// assert!(matches!(normalise("/auth/login?user=ann"), Cow::Borrowed("/auth/login")));
/// ```
pub fn normalise(path: &str) -> Cow<'_, str> {
    if is_plainly_normal(path) {
        return Cow::Borrowed(path);
    }

    let path = without_origin(path);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if is_plainly_normal(path) {
        return Cow::Borrowed(path);
    }

    let normal = rewrite(path);
    if normal == path {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(normal)
    }
}

/// Removes the scheme and host of an absolute request target. A path starts with a slash, so it is
/// never mistaken for one. An empty host is left alone: servers disagree about `http:///x`.
fn without_origin(target: &str) -> &str {
    let after_scheme = ["http://", "https://"].into_iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    });

    let Some(rest) = after_scheme else {
        return target;
    };
    match rest.find(['/', '\\', '?', '#']) {
        Some(0) => target,
        Some(end) => &rest[end..],
        None => "",
    }
}

/// A fast check that recognises most normal paths: plain segments, none of which starts or ends with
/// a dot. Such a path has only one reading.
fn is_plainly_normal(path: &str) -> bool {
    let mut previous = 0;
    for byte in path.bytes() {
        let is_valid = match previous {
            0 => byte == b'/',
            b'/' => byte != b'.' && is_plain(byte),
            b'.' => is_plain(byte),
            _ => byte == b'/' || is_plain(byte),
        };

        if !is_valid {
            return false;
        }
        previous = byte;
    }
    path == "/" || !matches!(previous, b'/' | b'.' | 0)
}

/// Normalises a path, segment by segment.
fn rewrite(path: &str) -> String {
    let mut normal = String::with_capacity(path.len() + 1);
    for segment in path.split(['/', '\\']) {
        let parent = normal.len();
        normal.push('/');
        let name = segment.split(';').next().unwrap_or_default();
        push_segment(&mut normal, name);

        match normal.get(parent..) {
            Some("/" | "/.") => normal.truncate(parent),
            Some("/..") => {
                normal.truncate(parent);
                normal.truncate(normal.rfind('/').unwrap_or(0));
            }
            _ => {}
        }
    }

    if normal.is_empty() {
        normal.push('/');
    }
    normal
}

/// Appends a normalised segment: runs of plain bytes as they are, other bytes one by one.
fn push_segment(normal: &mut String, segment: &str) {
    let bytes = segment.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let plain = bytes[at..]
            .iter()
            .take_while(|byte| is_plain(**byte))
            .count();
        normal.push_str(segment.get(at..at + plain).unwrap_or_default());
        at += plain;

        if let Some(byte) = escape(&bytes[at..]) {
            if is_unreserved(byte) {
                normal.push(char::from(byte));
            } else {
                normal.push_str(percent_encode_byte(byte));
            }
            at += 3;
        } else if let Some(byte) = bytes.get(at) {
            normal.push_str(percent_encode_byte(*byte));
            at += 1;
        }
    }
}

/// Decodes the percent-encoded byte at the start of a text.
fn escape(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()
}

/// Whether a byte means the same whether or not it is percent-encoded.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether a byte needs no percent-encoding in a segment. A semicolon does, because it starts
/// parameters. This is a table, because it is looked up for every byte of every path.
fn is_plain(byte: u8) -> bool {
    const SIGNS: &[u8] = b"!$&'()*+,=:@";
    const PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            plain[byte as usize] = is_unreserved(byte);
            byte += 1;
        }

        let mut at = 0;
        while at < SIGNS.len() {
            plain[SIGNS[at] as usize] = true;
            at += 1;
        }
        plain
    };
    PLAIN[usize::from(byte)]
}

#[cfg(test)]
mod tests;
