//! The WHATWG URL parser, as far as it determines the path.

use super::text::without_dots;

const SPECIAL: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// `new URL(target, "http://localhost").pathname`, without the encoding of other characters.
pub(crate) fn node_url(target: &str) -> Option<String> {
    let text = target.trim_matches(|c: char| c <= ' ');
    let text: String = text
        .chars()
        .filter(|c| !matches!(c, '\t' | '\n' | '\r'))
        .collect();

    match scheme_of(&text) {
        None => relative(&text),
        Some((scheme, rest)) if scheme == "http" => {
            if rest.starts_with("//") {
                after_authority(rest, true)
            } else {
                relative(rest)
            }
        }
        Some((scheme, rest)) if SPECIAL.contains(&scheme.as_str()) => after_authority(rest, true),
        Some((_, rest)) if rest.starts_with("//") => after_authority(&rest[2..], false),
        Some((_, rest)) if rest.starts_with('/') => Some(path_of(rest, false)),
        Some((_, rest)) => Some(cut(rest).to_owned()),
    }
}

/// `new URL("http://localhost" + target).pathname`: the path follows a host already.
pub(crate) fn appended(target: &str) -> Option<String> {
    node_url(&format!("http://localhost{target}"))
}

fn scheme_of(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let mut chars = scheme.chars();
    let is_scheme = chars.next()?.is_ascii_alphabetic()
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme.then(|| (scheme.to_ascii_lowercase(), rest))
}

fn is_slash(c: char) -> bool {
    matches!(c, '/' | '\\')
}

fn cut(text: &str) -> &str {
    text.split(['?', '#']).next().unwrap_or_default()
}

/// A reference that is resolved against `http://localhost/`.
fn relative(text: &str) -> Option<String> {
    let mut chars = text.chars();
    match (
        chars.next().is_some_and(is_slash),
        chars.next().is_some_and(is_slash),
    ) {
        (true, true) => after_authority(text, true),
        (true, false) => Some(path_of(text, true)),
        (false, _) => Some(path_of(&format!("/{text}"), true)),
    }
}

/// The path after the host. A special scheme ignores how many slashes are before the host.
fn after_authority(text: &str, is_special: bool) -> Option<String> {
    let ends = |c: char| matches!(c, '/' | '?' | '#') || (is_special && c == '\\');
    let text = if is_special {
        text.trim_start_matches(is_slash)
    } else {
        text
    };
    let at = text.find(ends).unwrap_or(text.len());
    let (authority, path) = text.split_at(at);

    let host = authority.rsplit('@').next().unwrap_or_default();
    if is_special && host.split(':').next().unwrap_or_default().is_empty() {
        return None;
    }
    Some(path_of(path, is_special))
}

fn path_of(text: &str, is_special: bool) -> String {
    let path = cut(text);
    let path = if is_special {
        path.replace('\\', "/")
    } else {
        path.to_owned()
    };
    if path.is_empty() {
        return "/".to_owned();
    }

    let plain = |segment: &str| segment.to_ascii_lowercase().replace("%2e", ".");
    without_dots(
        &path,
        |segment| plain(segment) == ".",
        |segment| plain(segment) == "..",
    )
}
