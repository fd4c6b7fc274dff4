//! Access control of the admin port.
//!
//! With a token, every request must carry it. Without one, the port listens on a loopback address
//! and every local program has access. The remaining danger is a browser on the same machine: a
//! page of another site can make the browser send requests to this port (cross-site request
//! forgery), and can resolve its own host name to this address to read the responses (DNS
//! rebinding). Both are rejected.

use std::fmt;
use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::{Method, Request};
use subtle::ConstantTimeEq as _;

use crate::http::ApiError;

/// How the page that makes a request is related to this site; browsers send it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The access control of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdminAccess {
    /// A health probe, which needs neither a token nor a known host name.
    Public,
    /// A file of the dashboard. No token is needed: the browser has none to send until the page
    /// asks for it, and the files are public.
    Page,
    /// The admin API.
    Api,
    /// The event stream. The number of streams is bounded: a page of another site could not read
    /// one, but it could use up all of them.
    Events,
}

/// Decides which requests may use the admin port.
pub(super) struct AdminGuard {
    token: Option<String>,
}

/// Does not show the token.
impl fmt::Debug for AdminGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminGuard")
            .field("has_token", &self.token.is_some())
            .finish()
    }
}

impl AdminGuard {
    pub(super) const fn new(token: Option<String>) -> Self {
        Self { token }
    }

    /// Decides whether a request may use a path.
    pub(super) fn authorize<B>(
        &self,
        request: &Request<B>,
        access: AdminAccess,
    ) -> Result<(), ApiError> {
        match (access, &self.token) {
            (AdminAccess::Public, _) | (AdminAccess::Page, Some(_)) => return Ok(()),
            // A page of another site does not know the token, so no further check is needed.
            (_, Some(token)) if has_token(request, token) => return Ok(()),
            (_, Some(_)) => return Err(ApiError::unauthorized()),
            (_, None) => expect_local_host(request)?,
        }

        let is_open = match access {
            AdminAccess::Public | AdminAccess::Page => true,
            // A browser does not let another site read the response.
            AdminAccess::Api => matches!(*request.method(), Method::GET | Method::HEAD),
            AdminAccess::Events => false,
        };
        if is_open || is_same_origin(request) {
            Ok(())
        } else {
            Err(ApiError::cross_site())
        }
    }
}

/// Whether the request has exactly one `Authorization` header with the token. The comparison takes
/// constant time.
fn has_token<B>(request: &Request<B>, token: &str) -> bool {
    let mut values = request.headers().get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };

    let Some((scheme, value)) = value.as_bytes().split_at_checked("Bearer ".len()) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Bearer ") && value.trim_ascii().ct_eq(token.as_bytes()).into()
}

/// Rejects host names, which anyone can point at this address: the host must be an IP address or
/// `localhost`.
fn expect_local_host<B>(request: &Request<B>) -> Result<(), ApiError> {
    let in_target = request
        .uri()
        .authority()
        .map(|authority| authority.as_str().as_bytes());
    let in_headers = request
        .headers()
        .get_all(HOST)
        .iter()
        .map(HeaderValue::as_bytes);

    for host in in_target.into_iter().chain(in_headers) {
        let host = String::from_utf8_lossy(host);
        if !is_local_host(&host) {
            return Err(ApiError::foreign_host(&host));
        }
    }
    Ok(())
}

fn is_local_host(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _port)) => address,
        None => host.split_once(':').map_or(host, |(name, _port)| name),
    };
    name.parse::<IpAddr>().is_ok() || name.trim_end_matches('.').eq_ignore_ascii_case("localhost")
}

/// False if a browser says that a page of another site made the request. Other programs send
/// neither of the two headers.
fn is_same_origin<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    let mut origins = headers.get_all(ORIGIN).iter();

    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    let is_own = |origin: &HeaderValue| {
        let origin = origin.as_bytes();
        let authority = origin
            .strip_prefix(b"http://")
            .or_else(|| origin.strip_prefix(b"https://"));
        authority
            .is_some_and(|authority| host.is_some_and(|host| host.eq_ignore_ascii_case(authority)))
    };

    sites.all(|site| site == "same-origin" || site == "none") && origins.all(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "correct-horse-battery";

    fn request(method: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().method(method).uri("/admin/reload");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request")
    }

    fn status(guard: &AdminGuard, method: &str, headers: &[(&str, &str)]) -> u16 {
        guard
            .authorize(&request(method, headers), AdminAccess::Api)
            .map_or_else(|error| error.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_requests_with_the_token_are_authorized() {
        let guard = AdminGuard::new(Some(TOKEN.into()));
        let with = |value: &str| status(&guard, "POST", &[("authorization", value)]);
        assert_eq!(with("Bearer correct-horse-battery"), 200);
        assert_eq!(with("bearer  correct-horse-battery"), 200);
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "correct-horse-battery",
            "Basic correct-horse-battery",
            "Bearer correct-horse-batterx",
            "Bearer correct-horse-batter",
            "Bearer correct-horse-batteryy",
        ] {
            assert_eq!(with(wrong), 401, "{wrong:?}");
        }
        assert_eq!(status(&guard, "GET", &[]), 401);

        let right = ("authorization", "Bearer correct-horse-battery");
        assert_eq!(
            status(&guard, "GET", &[right, right]),
            401,
            "two headers are ambiguous"
        );
        let foreign = [
            right,
            ("host", "tollgate.example"),
            ("origin", "http://elsewhere.example"),
        ];
        assert_eq!(
            status(&guard, "POST", &foreign),
            200,
            "no page of another site knows the token"
        );
        assert!(!format!("{guard:?}").contains("horse"));
    }

    #[test]
    fn cross_site_writes_are_rejected() {
        let guard = AdminGuard::new(None);
        let host = ("host", "127.0.0.1:9090");
        let with = |name: &'static str, value: &'static str| {
            ["POST", "DELETE"].map(|method| status(&guard, method, &[host, (name, value)]))
        };

        assert_eq!(status(&guard, "POST", &[host]), 200, "a program");
        assert_eq!(with("sec-fetch-site", "none"), [200; 2]);
        assert_eq!(with("sec-fetch-site", "same-origin"), [200; 2]);
        assert_eq!(
            with("sec-fetch-site", "same-site"),
            [403; 2],
            "another port of this machine"
        );
        assert_eq!(with("sec-fetch-site", "cross-site"), [403; 2]);
        assert_eq!(with("origin", "http://127.0.0.1:9090"), [200; 2]);
        assert_eq!(with("origin", "http://127.0.0.1:9091"), [403; 2]);
        assert_eq!(with("origin", "http://elsewhere.example"), [403; 2]);
        assert_eq!(with("origin", "null"), [403; 2]);
        assert_eq!(
            status(&guard, "GET", &[host, ("sec-fetch-site", "cross-site")]),
            200,
            "the browser does not let the other site read it"
        );
    }

    #[test]
    fn foreign_host_names_are_rejected() {
        let guard = AdminGuard::new(None);
        let with =
            |host: &str| ["GET", "POST"].map(|method| status(&guard, method, &[("host", host)]));
        for own in [
            "127.0.0.1",
            "127.0.0.1:9090",
            "[::1]:9090",
            "[::1]",
            "localhost",
            "LocalHost:9090",
        ] {
            assert_eq!(with(own), [200; 2], "{own}");
        }

        for foreign in [
            "rebind.example:9090",
            "localhost.example",
            "127.0.0.1.example",
            "",
            "[::1",
            "[x]:1",
        ] {
            assert_eq!(with(foreign), [403; 2], "{foreign}");
        }

        let target = Request::builder()
            .uri("http://rebind.example/metrics")
            .header("host", "localhost");
        assert!(
            guard
                .authorize(&target.body(()).expect("a request"), AdminAccess::Api)
                .is_err()
        );
    }
}
