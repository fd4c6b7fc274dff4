//! Proxies: the request target that they pass on.

use super::text::{
    before, escaped, merged, quote, unquote, without_absolute, without_dots, without_plain_dots,
};

/// nginx's parser: decodes, resolves dots and merges slashes in one pass. This is `$uri`.
fn nginx_uri(target: &str, merges: bool) -> Option<Vec<u8>> {
    let target = without_absolute(target)?;
    let raw = before(&target, &['?', '#']);
    let bytes = unquote(raw, |_| true);
    if bytes.contains(&0) || raw.contains('%') && has_broken_escape(raw) {
        return None;
    }

    // Each byte as one character, so that the text functions keep the bytes.
    let text: String = bytes.iter().copied().map(char::from).collect();
    let text = if merges { merged(&text) } else { text };
    let path = without_plain_dots(&text);
    path.chars()
        .map(|c| u8::try_from(u32::from(c)).ok())
        .collect()
}

fn has_broken_escape(text: &str) -> bool {
    let bytes = text.as_bytes();
    (0..bytes.len()).any(|at| bytes[at] == b'%' && escaped(&bytes[at..]).is_none())
}

/// `proxy_pass http://app;` passes on what the client sent, without scheme and host.
pub(crate) fn nginx_unparsed(target: &str) -> Option<String> {
    nginx_uri(target, true)?;
    without_absolute(target)
}

/// `proxy_pass http://app/;` passes on its own reading, encoded again.
pub(crate) fn nginx_rewritten(target: &str) -> Option<String> {
    Some(quote(&nginx_uri(target, true)?, "%?#"))
}

/// The same with `merge_slashes off`.
pub(crate) fn nginx_without_merging(target: &str) -> Option<String> {
    Some(quote(&nginx_uri(target, false)?, "%?#"))
}

/// `proxy_pass http://app$uri;` passes on its own reading as it is.
pub(crate) fn nginx_variable(target: &str) -> Option<String> {
    let uri = String::from_utf8(nginx_uri(target, true)?).ok()?;
    (!uri.contains([' ', '\r', '\n'])).then_some(uri)
}

/// `normalize_path` and `merge_slashes`: dots, also encoded ones, backslashes, then slashes.
pub(crate) fn envoy_normalized(target: &str) -> Option<String> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = before(path, &['#']).replace('\\', "/");
    if !path.starts_with('/') {
        return None;
    }

    let plain = |segment: &str| segment.to_ascii_lowercase().replace("%2e", ".");
    let path = without_dots(&path, |name| plain(name) == ".", |name| plain(name) == "..");
    Some(format!("{}?{query}", merged(&path)))
}

/// `path_with_escaped_slashes_action: UNESCAPE_AND_FORWARD`, then the normalisation.
pub(crate) fn envoy_unescaped(target: &str) -> Option<String> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = String::from_utf8(unquote(path, |byte| matches!(byte, b'/' | b'\\'))).ok()?;
    envoy_normalized(&format!("{path}?{query}"))
}

/// A rewrite works on the decoded path, which is encoded again.
pub(crate) fn caddy_rewritten(target: &str) -> Option<String> {
    let path = without_absolute(before(target, &['?']))?;
    if has_broken_escape(&path) {
        return None;
    }
    Some(quote(&unquote(&path, |_| true), "%?#[]^`{|}\"<>\\"))
}

/// `normalize-uri path-strip-dotdot` does not decode anything.
pub(crate) fn haproxy_dots(target: &str) -> Option<String> {
    let path = without_absolute(before(target, &['?']))?;
    Some(without_plain_dots(&path))
}

/// `fragment-strip`, `percent-decode-unreserved`, `path-merge-slashes` and `path-strip-dotdot`.
pub(crate) fn haproxy_all(target: &str) -> Option<String> {
    let path = without_absolute(before(target, &['?', '#']))?;
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let path = String::from_utf8(unquote(&path, is_unreserved)).ok()?;
    Some(without_plain_dots(&merged(&path)))
}
