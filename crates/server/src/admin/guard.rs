//! Who may ask on the admin port.
//!
//! With a token, whoever has it. Without one the port is on a loopback address, and the danger is a
//! browser on the same machine: a page of another site can make it send requests here, and can
//! point a name of its own here to read the answers.

use std::fmt;
use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use hyper::{Method, Request};
use subtle::ConstantTimeEq as _;

use crate::http::ApiError;

/// Where a browser says how the page that makes a request is related to where it goes.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Lets requests in or not.
pub(super) struct Guard {
    token: Option<String>,
}

/// Without the token.
impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("wants_token", &self.token.is_some())
            .finish()
    }
}

impl Guard {
    pub(super) const fn new(token: Option<String>) -> Self {
        Self { token }
    }

    /// Nothing, or why the request is not let in.
    pub(super) fn admit<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        match &self.token {
            // No page can know it, so whoever sends it means it.
            Some(token) if has_token(request, token) => Ok(()),
            Some(_) => Err(ApiError::unauthorized()),
            None => {
                expect_own_name(request)?;
                let only_looks = matches!(*request.method(), Method::GET | Method::HEAD);
                if only_looks || is_from_here(request) {
                    Ok(())
                } else {
                    Err(ApiError::cross_site())
                }
            }
        }
    }

    /// The same for the files of the dashboard. A browser has no token to send before there is a
    /// page that asks for one, and the files are the same for everyone.
    pub(super) fn admit_to_page<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        if self.token.is_some() {
            Ok(())
        } else {
            expect_own_name(request)
        }
    }

    /// The same for events, of which only so many can be listened to: a page of another site could
    /// not read them, and yet take every place there is.
    pub(super) fn admit_to_events<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        self.admit(request)?;
        if self.token.is_some() || is_from_here(request) {
            Ok(())
        } else {
            Err(ApiError::cross_site())
        }
    }
}

/// Compared in a time that does not depend on how much of it is right.
fn has_token<B>(request: &Request<B>, token: &str) -> bool {
    let mut found = request.headers().get_all(AUTHORIZATION).iter();
    let (Some(found), None) = (found.next(), found.next()) else {
        return false;
    };
    let Some((scheme, found)) = found.as_bytes().split_at_checked("Bearer ".len()) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Bearer ") && found.trim_ascii().ct_eq(token.as_bytes()).into()
}

/// Refuses a name that anyone could have pointed here: the host must be an address or localhost.
fn expect_own_name<B>(request: &Request<B>) -> Result<(), ApiError> {
    let in_target = request
        .uri()
        .authority()
        .map(|authority| authority.as_str().as_bytes());
    let in_headers = request
        .headers()
        .get_all(HOST)
        .iter()
        .map(hyper::header::HeaderValue::as_bytes);
    for host in in_target.into_iter().chain(in_headers) {
        let host = String::from_utf8_lossy(host);
        if !is_own_name(&host) {
            return Err(ApiError::foreign_host(&host));
        }
    }
    Ok(())
}

fn is_own_name(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _port)) => address,
        None => host.split_once(':').map_or(host, |(name, _port)| name),
    };
    name.parse::<IpAddr>().is_ok() || name.trim_end_matches('.').eq_ignore_ascii_case("localhost")
}

/// True unless a browser says that a page of another site is behind the request. Programs say
/// nothing about it.
fn is_from_here<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    let sites = headers.get_all(SEC_FETCH_SITE);
    let host = headers.get(HOST).map(hyper::header::HeaderValue::as_bytes);
    let is_own = |origin: &[u8]| {
        let place = origin
            .strip_prefix(b"http://")
            .or_else(|| origin.strip_prefix(b"https://"));
        place.is_some_and(|place| host.is_some_and(|host| host.eq_ignore_ascii_case(place)))
    };
    sites
        .iter()
        .all(|site| site == "same-origin" || site == "none")
        && headers
            .get_all(ORIGIN)
            .iter()
            .all(|origin| is_own(origin.as_bytes()))
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

    fn status(guard: &Guard, method: &str, headers: &[(&str, &str)]) -> u16 {
        guard
            .admit(&request(method, headers))
            .map_or_else(|fault| fault.status.as_u16(), |()| 200)
    }

    #[test]
    fn whoever_has_the_token_is_let_in_and_nobody_else() {
        let guard = Guard::new(Some(TOKEN.into()));
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
            "of two, one may be someone else's"
        );
        let strange = [
            right,
            ("host", "tollgate.example"),
            ("origin", "http://elsewhere.example"),
        ];
        assert_eq!(
            status(&guard, "POST", &strange),
            200,
            "no page knows the token"
        );
        assert!(!format!("{guard:?}").contains("horse"));
    }

    #[test]
    fn pages_of_other_sites_change_nothing() {
        let guard = Guard::new(None);
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
            "it cannot be read there"
        );
    }

    #[test]
    fn names_that_anyone_can_point_here_are_refused() {
        let guard = Guard::new(None);
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
        assert!(guard.admit(&target.body(()).expect("a request")).is_err());
    }
}
