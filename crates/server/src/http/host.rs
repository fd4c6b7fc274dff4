//! The `Host` header, which HTTP/1.1 requires.

use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Version};
use tollgate_gate::api::ApiError;

/// Rejects a request with several `Host` headers or an invalid one, and an HTTP/1.1 request without
/// one: programs in front of the service could read such a request in another way.
pub(crate) fn expect_host<B>(request: &Request<B>) -> Result<(), ApiError> {
    let mut hosts = request.headers().get_all(HOST).iter();

    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_valid(host) => Ok(()),
        (Some(host), None) => {
            let host: String = String::from_utf8_lossy(host.as_bytes())
                .chars()
                .take(80)
                .collect();
            Err(bad_host(format!(
                "the Host header is {host:?}; it must be a host name or an address, and may have \
                 a port"
            )))
        }
        (Some(_), Some(_)) => Err(bad_host(
            "the request has several Host headers; it must have one".to_owned(),
        )),
        (None, _) if request.version() == Version::HTTP_11 => Err(bad_host(
            "the request has no Host header, which HTTP/1.1 requires".to_owned(),
        )),
        (None, _) => Ok(()),
    }
}

fn bad_host(detail: String) -> ApiError {
    ApiError::bad_request("bad-host", detail)
}

/// Whether a value is a host name, an IPv4 address or an IPv6 address in brackets, with or without
/// a port.
fn is_valid(host: &HeaderValue) -> bool {
    let host = host.as_bytes();

    let (is_name, port) = if let Some(rest) = host.strip_prefix(b"[") {
        let end = rest.iter().position(|byte| *byte == b']').unwrap_or(0);
        let (address, rest) = rest.split_at(end);
        let is_address_byte = |byte: &u8| byte.is_ascii_hexdigit() || b":.".contains(byte);
        // Without a closing bracket the address is empty.
        let is_address = !address.is_empty() && address.iter().all(is_address_byte);
        (is_address, rest.get(1..).unwrap_or_default())
    } else {
        let end = host.iter().position(|byte| *byte == b':');
        let (name, port) = host.split_at(end.unwrap_or(host.len()));
        let is_name = !name.is_empty() && name.iter().copied().all(is_name_byte);
        (is_name, port)
    };
    is_name && is_port(port)
}

/// Whether this is a colon and a port, or nothing.
fn is_port(text: &[u8]) -> bool {
    match text.strip_prefix(b":") {
        Some(digits) => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        None => text.is_empty(),
    }
}

/// Whether a byte may be part of a host name in a URL (RFC 3986, `reg-name`).
const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'%'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(version: Version, hosts: &[&str]) -> Option<&'static str> {
        let mut request = Request::builder().version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let request = request.body(()).expect("a request");
        expect_host(&request).map_err(|error| error.code).err()
    }

    #[test]
    fn http_1_1_requires_exactly_one_host() {
        assert_eq!(code(Version::HTTP_11, &["a"]), None);
        assert_eq!(code(Version::HTTP_11, &[]), Some("bad-host"));
        assert_eq!(code(Version::HTTP_11, &["a", "a"]), Some("bad-host"));
    }

    #[test]
    fn other_versions_may_go_without() {
        for version in [Version::HTTP_10, Version::HTTP_2] {
            assert_eq!(code(version, &[]), None);
            assert_eq!(code(version, &["a", "b"]), Some("bad-host"));
        }
    }

    #[test]
    fn hosts_are_names_or_addresses_with_or_without_a_port() {
        for valid in [
            "tollgate",
            "a.example:8080",
            "127.0.0.1",
            "127.0.0.1:",
            "[::1]",
            "[::1]:80",
            "a_b-c.d",
            "[::ffff:1.2.3.4]:1",
        ] {
            assert_eq!(code(Version::HTTP_11, &[valid]), None, "{valid}");
        }

        for invalid in [
            "", ":80", "a b", "a/b", "a@b", "a:b", "a:1:2", "a:123456", "[::1", "[]x", "[x]",
            "::1", "a,b:c", "a\\b", "a?b", "[::1]80",
        ] {
            assert_eq!(
                code(Version::HTTP_11, &[invalid]),
                Some("bad-host"),
                "{invalid}"
            );
        }
    }
}
