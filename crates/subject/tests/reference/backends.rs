//! Backends: the path that their router looks up.

use super::text::{
    before, escaped, merged, unquote, unquote_lossy, without_absolute, without_plain_dots,
    without_trailing_slash,
};
use super::whatwg;

/// Hono on Node: `new URL`, then `decodeURI`, which keeps reserved characters encoded.
pub(crate) fn hono(target: &str) -> Option<String> {
    let path = if target.starts_with('/') {
        whatwg::appended(target)?
    } else if target.starts_with("http://") || target.starts_with("https://") {
        whatwg::node_url(target)?
    } else {
        return None;
    };
    let is_decoded = |byte: u8| !b";/?:@&=+$,#%".contains(&byte);
    Some(String::from_utf8(unquote(&path, is_decoded)).unwrap_or(path))
}

/// Express 5: `parseurl`, then a route that ignores case and a slash at the end.
pub(crate) fn express(target: &str) -> Option<String> {
    Some(without_trailing_slash(&parseurl(target)?).to_lowercase())
}

/// Koa with its router, which ignores case too.
pub(crate) fn koa(target: &str) -> Option<String> {
    express(target)
}

/// The path by `parseurl`: up to the query, or Node's old `url.parse` if there is something odd.
fn parseurl(target: &str) -> Option<String> {
    let is_odd = |c: char| {
        matches!(
            c,
            '#' | '\t' | '\n' | '\r' | ' ' | '\u{c}' | '\u{a0}' | '\u{feff}'
        )
    };
    if target.starts_with('/') && !before(target, &['?']).contains(is_odd) {
        return Some(before(target, &['?']).to_owned());
    }

    let text = target.trim();
    let (path, _) = text.split_once(['?', '#']).unwrap_or((text, ""));
    let path = path.replace('\\', "/");
    if path.starts_with('/') {
        return Some(path);
    }
    let (scheme, rest) = path.split_once("://")?;
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let at = rest.find('/').filter(|_| scheme.chars().all(is_scheme))?;
    Some(rest[at..].to_owned())
}

/// Flask on Werkzeug's server: `urlsplit`, `unquote`, and routes that merge slashes.
pub(crate) fn flask(target: &str) -> Option<String> {
    let path = before(target, &['?', '#']);
    let path: String = path
        .chars()
        .filter(|c| !matches!(c, '\t' | '\n' | '\r'))
        .collect();
    let path = without_absolute(&path)?;
    Some(merged(&unquote_lossy(&path)))
}

/// Django on a WSGI server.
pub(crate) fn django(target: &str) -> Option<String> {
    let path = without_absolute(before(target, &['?']))?;
    Some(unquote_lossy(&path))
}

/// Starlette, on which `FastAPI` is built: `$` also matches before a line end.
pub(crate) fn starlette(target: &str) -> Option<String> {
    if target.is_empty() {
        return None;
    }
    let path = unquote_lossy(before(target, &['?']));
    Some(path.strip_suffix('\n').unwrap_or(&path).to_owned())
}

/// Bottle leaves out what is not UTF-8.
pub(crate) fn bottle(target: &str) -> Option<String> {
    let bytes = unquote(&without_absolute(before(target, &['?']))?, |_| true);
    let valid = bytes.utf8_chunks().map(|chunk| chunk.valid());
    Some(valid.collect())
}

/// `rawurldecode(parse_url($uri, PHP_URL_PATH))`, trimmed as routers do.
pub(crate) fn php(target: &str) -> Option<String> {
    let path = before(target, &['?', '#']);
    let path = match (path.strip_prefix("//"), path.split_once("://")) {
        (Some(rest), _) if rest.starts_with('/') => return None,
        (Some(rest), _) => &rest[rest.find('/')?..],
        (None, Some((scheme, rest))) if !scheme.contains('/') => &rest[rest.find('/')?..],
        _ => path,
    };
    let path = unquote_lossy(path);
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\0' | '\u{b}');
    Some(without_trailing_slash(path.trim_matches(blank)))
}

/// PHP's own server decodes, resolves and merges.
pub(crate) fn php_server(target: &str) -> Option<String> {
    let path = without_absolute(before(target, &['?']))?;
    Some(without_trailing_slash(&without_plain_dots(&merged(
        &unquote_lossy(&path),
    ))))
}

/// Tomcat: parameters, decoding, backslashes, then slashes and dots.
pub(crate) fn tomcat(target: &str) -> Option<String> {
    let path = without_absolute(before(target, &['?']))?;
    let names = path.split('/').map(|segment| before(segment, &[';']));
    let path = names.collect::<Vec<_>>().join("/");
    let path = unquote_lossy(&path).replace('\\', "/");
    Some(without_plain_dots(&merged(&path)))
}

/// Kestrel decodes all but slashes, then resolves dots; routes ignore case.
pub(crate) fn kestrel(target: &str) -> Option<String> {
    let path = without_absolute(before(target, &['?']))?;
    let path = String::from_utf8(unquote(&path, |byte| byte != b'/')).ok()?;
    Some(without_trailing_slash(&without_plain_dots(&path)).to_lowercase())
}

/// Go cleans the decoded path; its redirect is followed here.
pub(crate) fn go_mux(target: &str) -> Option<String> {
    let path = without_absolute(before(target, &['?']))?;
    let bytes = path.as_bytes();
    if (0..bytes.len()).any(|at| bytes[at] == b'%' && escaped(&bytes[at..]).is_none()) {
        return None;
    }
    Some(without_trailing_slash(&without_plain_dots(&merged(
        &unquote_lossy(&path),
    ))))
}

/// A backend in C: the decoded path ends at NUL.
pub(crate) fn c_string(target: &str) -> Option<String> {
    if target.is_empty() {
        return None;
    }
    let path = unquote_lossy(before(target, &['?']));
    Some(before(&path, &['\0']).to_owned())
}
