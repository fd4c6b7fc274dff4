//! Access control of the admin port.
//!
//! With a token, every request must carry it, or the one that may only view. Without one, the port listens on a loopback address
//! and every local program has access, except for web pages of other sites.

use hyper::{Method, Request, StatusCode};
use tollgate_gate::api::ApiError;
use tollgate_rules::TokenHash;

use crate::guard::{BrowserGuard, presented_token};

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

/// The tokens of the admin port, each with its role.
#[derive(Debug)]
pub(crate) struct AdminTokens {
    /// May do everything.
    pub(crate) act: TokenHash,
    /// May only read, if it is set.
    pub(crate) view: Option<TokenHash>,
}

/// Decides which requests may use the admin port.
#[derive(Debug)]
pub(super) struct AdminGuard {
    tokens: Option<AdminTokens>,
}

impl AdminTokens {
    /// Requires a token whose role permits the method.
    fn authorize<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        let presented = presented_token(request.headers());
        let is = |token: &TokenHash| presented.is_some_and(|presented| token.matches(presented));
        if is(&self.act) {
            return Ok(());
        }
        if !self.view.as_ref().is_some_and(is) {
            return Err(ApiError::no_admin_token());
        }

        match *request.method() {
            Method::GET | Method::HEAD => Ok(()),
            _ => Err(view_only()),
        }
    }
}

/// The error of a token that may only view.
fn view_only() -> ApiError {
    let detail = "the token in TOLLGATE_ADMIN_VIEW_TOKEN may only view; to act, send the value of \
                  TOLLGATE_ADMIN_TOKEN";
    ApiError::new(StatusCode::FORBIDDEN, "view-only", detail)
}

impl AdminGuard {
    pub(super) const fn new(tokens: Option<AdminTokens>) -> Self {
        Self { tokens }
    }

    /// Decides whether a request may use a path.
    pub(super) fn authorize<B>(
        &self,
        request: &Request<B>,
        access: AdminAccess,
    ) -> Result<(), ApiError> {
        let browsers = BrowserGuard::default();
        match (access, &self.tokens) {
            (AdminAccess::Public, _) | (AdminAccess::Page, Some(_)) => return Ok(()),
            // A page of another site does not know the token, so no further check is needed.
            (_, Some(tokens)) => return tokens.authorize(request),
            (_, None) => browsers.expect_own_host(request)?,
        }

        let is_open = match access {
            AdminAccess::Public | AdminAccess::Page => true,
            // A browser does not let another site read the response.
            AdminAccess::Api => matches!(*request.method(), Method::GET | Method::HEAD),
            AdminAccess::Events => false,
        };
        if !is_open {
            browsers.expect_own_page(request)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "correct-horse-battery";

    fn guard(view: Option<&str>) -> AdminGuard {
        let hash = |token: &str| TokenHash::from_token(token).expect("a valid token");
        AdminGuard::new(Some(AdminTokens {
            act: hash(TOKEN),
            view: view.map(hash),
        }))
    }

    #[test]
    fn a_view_token_may_only_read() {
        let guard = guard(Some("view-horse-battery"));
        let with = |method, token: &str| {
            status(
                &guard,
                method,
                &[("authorization", &format!("Bearer {token}"))],
            )
        };
        for method in ["GET", "HEAD", "POST", "DELETE"] {
            assert_eq!(with(method, TOKEN), 200, "{method}");
            assert_eq!(with(method, "other-horse-battery"), 401, "{method}");
        }
        let view = |method| with(method, "view-horse-battery");
        assert_eq!((view("GET"), view("HEAD")), (200, 200));
        for method in ["POST", "DELETE", "PUT", "PATCH"] {
            assert_eq!(view(method), 403, "{method}");
        }
    }

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
        let guard = guard(None);
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
