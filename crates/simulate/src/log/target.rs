//! Splits the target of a request into host, path and query.

use std::borrow::Cow;

use memchr::memchr;
use tollgate_subject::{FieldValues, query_values};

use super::escape::unescape;

/// A parsed request target. Its texts still have their escapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestTarget<'l> {
    /// The host, if the target is an absolute URL.
    pub(super) host: Option<&'l str>,
    pub(super) path: &'l str,
    query: &'l str,
}

impl<'l> RequestTarget<'l> {
    /// Parses `/path?query` or `http://host/path?query`.
    #[inline]
    pub(super) fn parse(target: &'l str) -> Self {
        let (host, target) = if target.starts_with('/') {
            (None, target)
        } else {
            split_host(target)
        };
        let cut = memchr(b'?', target.as_bytes());
        let (path, query) = cut.map_or((target, ""), |at| (&target[..at], &target[at + 1..]));

        // An empty path would not match any rule about paths.
        Self {
            host,
            path: if path.is_empty() { "/" } else { path },
            query,
        }
    }

    /// A target with only a query.
    pub(super) const fn from_query(query: &'l str) -> Self {
        Self {
            host: None,
            path: "/",
            query,
        }
    }

    /// The values of the parameter with this name, as in the service.
    pub(super) fn query(&self, name: &str) -> FieldValues<'l> {
        match unescape(self.query) {
            Cow::Borrowed(query) => query_values(name, query),
            Cow::Owned(query) => {
                let values = query_values(name, &query).into_iter();
                values.map(|value| value.into_owned().into()).collect()
            }
        }
    }
}

fn split_host(target: &str) -> (Option<&str>, &str) {
    let schemes = ["http://", "https://"];
    let Some(rest) = schemes
        .iter()
        .find_map(|scheme| target.strip_prefix(scheme))
    else {
        return (None, target);
    };
    match rest.find(['/', '?']).unwrap_or(rest.len()) {
        // Servers disagree about an empty host, so the whole target is left for the readings.
        0 => (None, target),
        end => (Some(&rest[..end]), &rest[end..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_split() {
        let read = |target| {
            let RequestTarget { host, path, query } = RequestTarget::parse(target);
            (host, path, query)
        };
        assert_eq!(read("/a?b=c?d"), (None, "/a", "b=c?d"));
        assert_eq!(read("https://h:8443?x"), (Some("h:8443"), "/", "x"));
        assert_eq!(read("*"), (None, "*", ""));
        assert_eq!(read("//evil/a"), (None, "//evil/a", ""));
    }

    #[test]
    fn parameters_are_read_as_in_the_service() {
        let target = RequestTarget::parse("/?a%5Bx%5D=1&b&a=2&a=\\x33+");
        assert_eq!(target.query("a[x]").as_slice(), ["1"]);
        assert_eq!(target.query("a").as_slice(), ["1", "2", "3 "]);
        assert_eq!(target.query("b").as_slice(), [""; 0]);
        assert_eq!(target.query("c").as_slice(), [""; 0]);
    }
}
