//! Functions that several readers share.

/// The byte of a percent-escape at the start of a text.
pub(crate) fn escaped(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            let digits = [*high, *low];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()
        }
        _ => None,
    }
}

/// Decodes the escapes of the wanted bytes.
pub(crate) fn unquote(text: &str, is_wanted: impl Fn(u8) -> bool) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let decoded = escaped(&bytes[at..]).filter(|byte| is_wanted(*byte));
        out.push(decoded.unwrap_or(bytes[at]));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    out
}

/// Decodes all escapes; what is not UTF-8 is replaced.
pub(crate) fn unquote_lossy(text: &str) -> String {
    String::from_utf8_lossy(&unquote(text, |_| true)).into_owned()
}

/// Encodes what may not be in a request line, and these characters.
pub(crate) fn quote(text: &[u8], reserved: &str) -> String {
    let quoted = text.iter().map(|byte| {
        if *byte <= b' ' || *byte >= 0x7f || reserved.as_bytes().contains(byte) {
            format!("%{byte:02X}")
        } else {
            char::from(*byte).to_string()
        }
    });
    quoted.collect::<Vec<_>>().concat()
}

/// Joins runs of slashes.
pub(crate) fn merged(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if !(c == '/' && out.ends_with('/')) {
            out.push(c);
        }
    }
    out
}

/// Resolves dot segments as RFC 3986, 5.2.4 does, and never goes above the root.
pub(crate) fn without_dots(
    path: &str,
    is_dot: impl Fn(&str) -> bool,
    is_dot_dot: impl Fn(&str) -> bool,
) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (at, segment) in segments.iter().enumerate() {
        let is_last = at + 1 == segments.len();
        if is_dot_dot(segment) {
            kept.pop();
        } else if !is_dot(segment) {
            kept.push(segment);
            continue;
        }
        if is_last {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

/// The same for dots that are not escaped.
pub(crate) fn without_plain_dots(path: &str) -> String {
    without_dots(path, |segment| segment == ".", |segment| segment == "..")
}

/// The text before the first of these characters.
pub(crate) fn before<'t>(text: &'t str, ends: &[char]) -> &'t str {
    text.split(ends).next().unwrap_or_default()
}

/// A route that allows a slash at its end.
pub(crate) fn without_trailing_slash(path: &str) -> String {
    match path.strip_suffix('/') {
        Some("") | None => path.to_owned(),
        Some(name) => name.to_owned(),
    }
}

/// The path and query of a target in absolute form; the target itself in origin form.
pub(crate) fn without_absolute(target: &str) -> Option<String> {
    if target.starts_with('/') {
        return Some(target.to_owned());
    }
    let (scheme, rest) = target.split_once("://")?;
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if scheme.is_empty() || !scheme.chars().all(is_scheme) {
        return None;
    }
    let at = rest.find(['/', '?'])?;
    let path = &rest[at..];
    Some(if path.starts_with('?') {
        format!("/{path}")
    } else {
        path.to_owned()
    })
}
