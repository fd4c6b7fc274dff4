//! What every port checks of a request before it looks at its meaning: the token it brings, and
//! whether a web page sent it.
//!
//! A browser on the machine of a developer or operator is a danger to ports that ask for no token.
//! A page of another site can make it send requests to them (cross-site request forgery), and can
//! resolve its own host name to their address (DNS rebinding). Programs other than browsers send
//! neither `Origin` nor `Sec-Fetch-Site`.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::{HeaderMap, Request, StatusCode};
use tollgate_gate::api::ApiError;
use tollgate_rules::config::AccessConfig;

/// The token of the service, for proxies that pass on the `Authorization` of their clients.
const X_TOLLGATE_TOKEN: HeaderName = HeaderName::from_static("x-tollgate-token");
/// How the page that makes a request is related to this site; browsers send it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

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

/// Why a request that may come from a web page is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BrowserError {
    /// A page of another site made the browser send the request.
    CrossSite,
    /// The request names a host that an attacker could have pointed at this address.
    ForeignHost(String),
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
    pub(crate) fn expect_own_host<B>(self, request: &Request<B>) -> Result<(), BrowserError> {
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
                Err(BrowserError::ForeignHost(host.into_owned()))
            }
        })
    }

    /// Rejects requests of pages from other origins than this service and the allowed ones.
    pub(crate) fn expect_own_page<B>(self, request: &Request<B>) -> Result<(), BrowserError> {
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
        is_own_page.then_some(()).ok_or(BrowserError::CrossSite)
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

impl From<BrowserError> for ApiError {
    fn from(error: BrowserError) -> Self {
        let (code, detail) = match error {
            BrowserError::CrossSite => (
                "cross-site",
                "cross-site request: web pages may use the HTTP port only from \
                 `server.allowed_origins`, and the admin port only from its own page"
                    .to_owned(),
            ),
            BrowserError::ForeignHost(found) => {
                let found: String = found.chars().take(80).collect();
                let detail = format!(
                    "the host is {found:?}; without a token it must be an IP address or a name \
                     without a dot, such as localhost, as a protection against DNS rebinding; the \
                     HTTP port also accepts `server.allowed_hosts`"
                );
                ("foreign-host", detail)
            }
        };
        Self::new(StatusCode::FORBIDDEN, code, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().method("POST").uri("/v1/check");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request")
    }

    #[test]
    fn the_token_is_in_one_of_two_headers() {
        let bearer = ("authorization", "Bearer abc");
        let own = ("x-tollgate-token", "xyz");
        for (headers, expected) in [
            (&[bearer][..], Some("abc")),
            (&[("authorization", "bearer  abc ")], Some("abc")),
            (&[own], Some("xyz")),
            // The client's own, which the proxy passes on.
            (&[bearer, own], Some("xyz")),
            (&[own, own], None),
            (&[bearer, bearer], None),
            (&[("authorization", "Basic abc")], None),
            (&[("authorization", "Bearer")], None),
            (&[("authorization", "abc")], None),
            (&[], None),
        ] {
            let request = request(headers);
            let token = presented_token(request.headers());
            assert_eq!(token, expected.map(str::as_bytes), "{headers:?}");
        }
    }

    #[test]
    fn pages_need_an_allowed_origin() {
        let access = AccessConfig {
            allowed_origins: vec!["https://app.example".into()],
            allowed_hosts: vec!["limits.internal".into()],
            ..AccessConfig::default()
        };
        let guard = BrowserGuard::new(&access);
        let is_own = |headers: &[(&str, &str)]| guard.expect_own_page(&request(headers)).is_ok();

        let host = ("host", "limits.internal:8080");
        let cross_site = ("sec-fetch-site", "cross-site");
        assert!(is_own(&[host]), "a program");
        assert!(is_own(&[
            host,
            ("origin", "https://app.example"),
            cross_site
        ]));
        assert!(is_own(&[host, ("origin", "http://limits.internal:8080")]));
        assert!(!is_own(&[host, cross_site]));
        for origin in [
            "http://app.example",
            "https://app.example:8443",
            "https://app.example.evil",
            "http://127.0.0.1:8080",
            "null",
            "",
        ] {
            assert!(!is_own(&[host, ("origin", origin)]), "{origin}");
        }

        let both = [
            host,
            ("origin", "https://app.example"),
            ("origin", "https://evil.example"),
        ];
        assert!(!is_own(&both));
        // A page whose host name resolves to this address.
        let rebound = [
            ("host", "evil.example:8080"),
            ("origin", "http://evil.example:8080"),
        ];
        assert!(!is_own(&rebound));
    }

    #[test]
    fn hosts_are_addresses_or_own_names() {
        let access = AccessConfig {
            allowed_hosts: vec!["limits.internal".into()],
            ..AccessConfig::default()
        };
        let guard = BrowserGuard::new(&access);
        let is_own = |host: &str| guard.expect_own_host(&request(&[("host", host)])).is_ok();
        for own in [
            "127.0.0.1:8080",
            "[::1]",
            "LOCALHOST:1",
            "tollgate",
            "Limits.internal.:80",
        ] {
            assert!(is_own(own), "{own}");
        }
        for foreign in [
            "evil.example",
            "evil.example.:8080",
            "x.limits.internal",
            "[x]",
            "[::1",
            ".",
            "",
        ] {
            assert!(!is_own(foreign), "{foreign}");
        }
    }
}
