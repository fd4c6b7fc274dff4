//! One spelling for every path.

use std::borrow::Cow;

/// Gives a path the one spelling that rules are compared with.
///
/// Servers read many spellings as the same path, and each that a rule does not know is a way around
/// it. Where servers disagree, the reading that meets more rules wins: to count a request that
/// leads nowhere does no harm.
///
/// * What follows `?` or `#` is dropped, and so are the scheme and host of `https://host/path`.
/// * `/` and `\` separate segments; several count as one, as browsers and some servers read `\` as
///   `/`.
/// * Of `;` and what follows it in a segment nothing stays: these are parameters, not names.
/// * Escaped letters, digits, `-`, `.`, `_` and `~` stand for themselves. Other escapes stay, in
///   capitals: `%2F` is a slash within a name, and `%252e` is the text `%2e`, never a dot. What may
///   not stand in a path, such as a space, a control character or a letter beyond ASCII, is
///   escaped; so is a `%` that begins no escape.
/// * `.` and `..` are resolved and never leave the root. Empty segments are gone by then:
///   `/a//../b` is `/b`.
/// * The path begins with `/`. It does not end with one unless it is the root, so that a rule about
///   `/auth/login` is also one about `/auth/login/`.
///
/// Capital and small letters stay as they are; whether they differ is for [`Glob`](crate::Glob) to
/// say.
///
/// The result is its own normal form, takes one pass, and borrows a path that is normal already.
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
    if is_plainly_normal(path.as_bytes()) {
        return Cow::Borrowed(path);
    }
    let path = without_origin(path);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if is_normal(path) {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(rewrite(path))
    }
}

/// A request may name its target with scheme and host. A path of its own begins with a slash and is
/// never mistaken for that.
fn without_origin(target: &str) -> &str {
    let after_scheme = ["http://", "https://"].into_iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let Some(rest) = after_scheme else {
        return target;
    };
    rest.find(['/', '\\', '?', '#'])
        .and_then(|end| rest.get(end..))
        .unwrap_or_default()
}

fn is_normal(path: &str) -> bool {
    path == "/"
        || path
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(is_normal_segment))
}

/// True for most paths that are normal: plain segments, none of which begins with a dot. One pass
/// and nothing else.
fn is_plainly_normal(path: &[u8]) -> bool {
    let mut before = 0;
    for byte in path {
        let is_fine = match before {
            0 => *byte == b'/',
            b'/' => *byte != b'.' && is_plain(*byte),
            _ => *byte == b'/' || is_plain(*byte),
        };
        if !is_fine {
            return false;
        }
        before = *byte;
    }
    before != b'/' && before != 0
}

fn is_normal_segment(segment: &str) -> bool {
    if matches!(segment, "" | "." | "..") {
        return false;
    }
    let mut rest = segment.as_bytes();
    while let [first, after @ ..] = rest {
        let is_kept_escape =
            || matches!(escape(rest), Some(byte) if !is_unreserved(byte)) && is_capital(after);
        rest = match first {
            b'%' if is_kept_escape() => after.get(2..).unwrap_or_default(),
            byte if is_plain(*byte) => after,
            _ => return false,
        };
    }
    true
}

/// Whether the two digits that come first are in capitals, as far as they are letters.
fn is_capital(digits: &[u8]) -> bool {
    !digits.iter().take(2).any(u8::is_ascii_lowercase)
}

fn rewrite(path: &str) -> String {
    let mut normal = String::with_capacity(path.len() + 1);
    for segment in path.split(['/', '\\']) {
        let parent = normal.len();
        normal.push('/');
        push_segment(&mut normal, segment.as_bytes());
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

fn push_segment(normal: &mut String, segment: &[u8]) {
    let mut rest = segment;
    while let [first, after @ ..] = rest {
        if *first == b';' {
            return;
        }
        let (byte, is_escape) = escape(rest).map_or((*first, false), |byte| (byte, true));
        rest = if is_escape {
            after.get(2..).unwrap_or_default()
        } else {
            after
        };
        if is_unreserved(byte) || (!is_escape && is_plain(byte)) {
            normal.push(char::from(byte));
        } else {
            push_escape(normal, byte);
        }
    }
}

/// The byte that an escape at the start of a text stands for.
fn escape(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else {
        return None;
    };
    Some(digit(*high)? << 4 | digit(*low)?)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

fn push_escape(normal: &mut String, byte: u8) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    normal.push('%');
    normal.push(DIGITS[usize::from(byte >> 4)]);
    normal.push(DIGITS[usize::from(byte & 0xf)]);
}

/// What means the same escaped or not.
const UNRESERVED: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
/// What else may stand in a segment as it is.
const SIGNS: &[u8] = b"!$&'()*+,=:@";

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// What may stand in a segment as it is. The semicolon may, but begins what is dropped. Every byte
/// of every path is looked up here, so it is a table.
fn is_plain(byte: u8) -> bool {
    const PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut at = 0;
        while at < UNRESERVED.len() {
            plain[UNRESERVED[at] as usize] = true;
            at += 1;
        }
        at = 0;
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
