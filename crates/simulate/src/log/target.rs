//! What a request asks for: host, path and query of its target.

use std::borrow::Cow;

use memchr::memchr;
use percent_encoding::percent_decode_str;

use super::escape::unescaped;

/// A target, taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Target<'l> {
    /// The host, where the target names one.
    pub(super) host: Option<&'l str>,
    pub(super) path: &'l str,
    query: &'l str,
}

impl<'l> Target<'l> {
    /// `/path?query`, or all of `http://host/path?query`.
    #[inline]
    pub(super) fn read(target: &'l str) -> Self {
        let (host, target) = if target.starts_with('/') {
            (None, target)
        } else {
            with_host(target)
        };
        let cut = memchr(b'?', target.as_bytes());
        let (path, query) = cut.map_or((target, ""), |at| (&target[..at], &target[at + 1..]));
        // A path that is not there would meet no rule about paths.
        Self {
            host,
            path: if path.is_empty() { "/" } else { path },
            query,
        }
    }

    /// A query that stands by itself.
    pub(super) const fn with_query(query: &'l str) -> Self {
        Self {
            host: None,
            path: "/",
            query,
        }
    }

    /// The first parameter of this name, as the service reads it.
    pub(super) fn query(&self, name: &str) -> Option<Cow<'l, str>> {
        let mut pairs = self
            .query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs
            .find(|(found, _)| decoded(found) == name)
            .map(|(_, value)| decoded(value))
    }
}

fn with_host(target: &str) -> (Option<&str>, &str) {
    let scheme = ["http://", "https://"]
        .into_iter()
        .find(|scheme| target.starts_with(scheme));
    let Some(rest) = scheme.map(|scheme| &target[scheme.len()..]) else {
        return (None, target);
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    (Some(&rest[..end]), &rest[end..])
}

fn decoded(text: &str) -> Cow<'_, str> {
    match unescaped(text) {
        Cow::Borrowed(text) => percent_decode_str(text).decode_utf8_lossy(),
        Cow::Owned(text) => percent_decode_str(&text)
            .decode_utf8_lossy()
            .into_owned()
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_taken_apart() {
        let read = |target| {
            let Target { host, path, query } = Target::read(target);
            (host, path, query)
        };
        assert_eq!(read("/a?b=c?d"), (None, "/a", "b=c?d"));
        assert_eq!(read("https://h:8443?x"), (Some("h:8443"), "/", "x"));
        assert_eq!(read("*"), (None, "*", ""));
        assert_eq!(read("//evil/a"), (None, "//evil/a", ""));
    }

    #[test]
    fn the_first_parameter_of_a_name_counts() {
        let target = Target::read("/?a%5Bx%5D=1&b&a=2&a=3");
        assert_eq!(target.query("a[x]").as_deref(), Some("1"));
        assert_eq!(target.query("a").as_deref(), Some("2"));
        assert_eq!(target.query("b").as_deref(), Some(""));
        assert_eq!(target.query("c"), None);
    }
}
