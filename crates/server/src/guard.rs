//! What every port checks of a request before it looks at its meaning: the host that it names, the
//! token it brings, and whether a web page sent it.
//!
//! A browser on the machine of a developer or operator is a danger to ports that ask for no token.
//! A page of another site can make it send requests to them (cross-site request forgery), and can
//! resolve its own host name to their address (DNS rebinding). Programs other than browsers send
//! neither `Origin` nor `Sec-Fetch-Site`.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::{HeaderMap, Request, StatusCode, Version};
use tollgate_gate::api::ApiError;
use tollgate_rules::config::AccessConfig;

/// The token of the service, for proxies that pass on the `Authorization` of their clients.
const X_TOLLGATE_TOKEN: HeaderName = HeaderName::from_static("x-tollgate-token");
/// How the page that makes a request is related to this site; browsers send it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The most characters of a host that an error repeats.
const SHOWN_CHARS: usize = 80;

/// Rejects a request with several `Host` headers or an invalid one, and an HTTP/1.1 request without
/// one: programs in front of the service could read such a request in another way.
pub(crate) fn expect_host<B>(request: &Request<B>) -> Result<(), ApiError> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let detail = match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_host(host.as_bytes()) => return Ok(()),
        (None, _) if request.version() != Version::HTTP_11 => return Ok(()),
        (Some(host), None) => {
            let host = String::from_utf8_lossy(host.as_bytes());
            let host: String = host.chars().take(SHOWN_CHARS).collect();
            format!(
                "the Host header is {host:?}; it must be a host name or an address, and may have \
                 a port"
            )
        }
        (Some(_), Some(_)) => "the request has several Host headers; it must have one".to_owned(),
        (None, _) => "the request has no Host header, which HTTP/1.1 requires".to_owned(),
    };
    Err(ApiError::bad_request("bad-host", detail))
}

/// Whether a value is a host name, an IPv4 address or an IPv6 address in brackets, with or without
/// a port.
fn is_host(host: &[u8]) -> bool {
    // The bytes of a host name in a URL (RFC 3986, `reg-name`).
    let is_name_byte =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(byte);
    let is_address_byte = |byte: &u8| byte.is_ascii_hexdigit() || b":.".contains(byte);

    let (is_name, port) = if let Some(rest) = host.strip_prefix(b"[") {
        // Without a closing bracket the address is empty.
        let end = rest.iter().position(|byte| *byte == b']').unwrap_or(0);
        let (address, rest) = rest.split_at(end);
        let is_address = !address.is_empty() && address.iter().all(is_address_byte);
        (is_address, rest.get(1..).unwrap_or_default())
    } else {
        let end = host.iter().position(|byte| *byte == b':');
        let (name, port) = host.split_at(end.unwrap_or(host.len()));
        (!name.is_empty() && name.iter().all(is_name_byte), port)
    };
    let is_port = match port.strip_prefix(b":") {
        Some(digits) => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        None => port.is_empty(),
    };
    is_name && is_port
}

/// The token that a request brings: in `X-Tollgate-Token`, or else in `Authorization: Bearer`. None
/// if it brings none, or several, which is ambiguous.
pub(crate) fn presented_token(headers: &HeaderMap) -> Option<&[u8]> {
    let single = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        let value = values.next()?.as_bytes();
        values.next().is_none().then_some(value)
    };
    if headers.contains_key(&X_TOLLGATE_TOKEN) {
        return Some(single(&X_TOLLGATE_TOKEN)?.trim_ascii());
    }

    let (scheme, token) = single(&AUTHORIZATION)?.split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

/// Rejects requests that web pages make a browser send.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BrowserGuard<'c> {
    /// The origins of pages that may send requests, in lower case.
    origins: &'c [String],
    /// The names of this service that contain a dot, in lower case.
    hosts: &'c [String],
}

impl<'c> BrowserGuard<'c> {
    pub(crate) fn new(access: &'c AccessConfig) -> Self {
        Self {
            origins: &access.allowed_origins,
            hosts: &access.allowed_hosts,
        }
    }

    /// Rejects host names that are not this service's: anyone can point a name at this address.
    pub(crate) fn expect_own_host<B>(self, request: &Request<B>) -> Result<(), ApiError> {
        let in_target = request
            .uri()
            .authority()
            .map(|authority| authority.as_str().as_bytes());
        let in_headers = request.headers().get_all(HOST).iter();
        let mut hosts = in_target
            .into_iter()
            .chain(in_headers.map(HeaderValue::as_bytes));

        hosts.try_for_each(|host| {
            let host = String::from_utf8_lossy(host);
            if self.is_own_host(&host) {
                Ok(())
            } else {
                Err(foreign_host(&host))
            }
        })
    }

    /// Rejects requests of pages from other origins than this service and the allowed ones.
    pub(crate) fn expect_own_page<B>(self, request: &Request<B>) -> Result<(), ApiError> {
        let headers = request.headers();
        let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
        let mut origins = headers.get_all(ORIGIN).iter().peekable();

        let is_own_page = if origins.peek().is_some() {
            // The page's origin says more than how browsers classify it.
            let host = headers.get(HOST);
            origins.all(|origin| self.is_allowed_origin(origin, host))
        } else {
            sites.all(|site| site == "same-origin" || site == "none")
        };
        is_own_page.then_some(()).ok_or_else(cross_site)
    }

    fn is_allowed_origin(self, origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
        let Ok(origin) = origin.to_str() else {
            return false;
        };
        if self
            .origins
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(origin))
        {
            return true;
        }

        // The origin is this service itself. Names that are not its own do not count: a page can
        // have its own name resolved to this address.
        let authority = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        let host = host.and_then(|host| host.to_str().ok());
        matches!((authority, host), (Some(authority), Some(host))
            if host.eq_ignore_ascii_case(authority) && self.is_own_host(host))
    }

    /// Whether a host is an IP address, one of the names of this service, or a name without a dot,
    /// such as `localhost`: no site on the internet has such a name.
    fn is_own_host(self, host: &str) -> bool {
        if let Some((address, _port)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        {
            return address.parse::<IpAddr>().is_ok();
        }

        let name = host.split_once(':').map_or(host, |(name, _port)| name);
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_label = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !name.is_empty() && name.chars().all(is_label)
            || name.parse::<IpAddr>().is_ok()
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// A page of another site made the browser send the request.
fn cross_site() -> ApiError {
    let detail = "cross-site request: web pages may use the HTTP port only from \
                  `server.allowed_origins`, and the admin port only from its own page";
    ApiError::new(StatusCode::FORBIDDEN, "cross-site", detail)
}

/// The request names a host that an attacker could have pointed at this address.
fn foreign_host(found: &str) -> ApiError {
    let found: String = found.chars().take(SHOWN_CHARS).collect();
    let detail = format!(
        "the host is {found:?}; without a token it must be an IP address or a name without a dot, \
         such as localhost, as a protection against DNS rebinding; the HTTP port also accepts \
         `server.allowed_hosts`"
    );
    ApiError::new(StatusCode::FORBIDDEN, "foreign-host", detail)
}

#[cfg(test)]
mod tests;
