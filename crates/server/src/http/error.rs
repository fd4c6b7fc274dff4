//! Errors of the HTTP ports, as `application/problem+json` bodies.

use std::borrow::Cow;

use hyper::{Method, StatusCode};
use serde::Serialize;
use tollgate_rules::SelectError;

use crate::gate::{DecideError, PermitTokenError};

/// The longest path that a message repeats, in characters; longer ones are cut off.
const PATH_CHARS: usize = 80;

/// Why a request could not be served. Serialises to its problem body.
#[derive(Debug, Serialize)]
pub(crate) struct ApiError {
    #[serde(rename = "type")]
    kind: &'static str,
    /// The meaning of the status, the same for every error with that status.
    title: &'static str,
    #[serde(serialize_with = "serialize_status")]
    pub(crate) status: StatusCode,
    /// What was found and what is expected, for humans.
    detail: String,
    /// The cause, for programs.
    pub(crate) code: &'static str,
    /// The methods that the path accepts, if another one was used.
    #[serde(skip)]
    pub(crate) allow: Option<&'static str>,
    /// When to retry, in seconds.
    #[serde(skip)]
    pub(crate) retry_after_secs: Option<u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
fn serialize_status<S: serde::Serializer>(status: &StatusCode, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u16(status.as_u16())
}

impl ApiError {
    fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind: "about:blank",
            title,
            status,
            detail: detail.into(),
            code,
            allow: None,
            retry_after_secs: None,
        }
    }

    pub(crate) fn not_found(path: &str) -> Self {
        let path: String = path.chars().take(PATH_CHARS).collect();
        let detail = format!("unknown path {path:?}; GET /openapi.json describes all paths");
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not Found", detail)
    }

    /// An unknown path of the admin port, whose first page lists the paths.
    pub(crate) fn admin_not_found(path: &str) -> Self {
        let path: String = path.chars().take(PATH_CHARS).collect();
        let detail = format!(
            "unknown path {path:?}; this is the admin port; the check API is on the address of --http"
        );
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not Found", detail)
    }

    pub(crate) fn method_not_allowed(found: &Method, allow: &'static str) -> Self {
        let found: String = found.as_str().chars().take(20).collect();
        let expected = allow.replace(", ", " or ");
        let error = Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "Method Not Allowed",
            format!("the method is {found}; it must be {expected}"),
        );

        Self {
            allow: Some(allow),
            ..error
        }
    }

    pub(crate) fn body_too_large(bytes_max: usize) -> Self {
        let detail = format!("the body is longer than {bytes_max} bytes");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body-too-large",
            "Content Too Large",
            detail,
        )
    }

    pub(crate) fn body_too_slow(seconds: f64) -> Self {
        let detail = format!("the body did not arrive within {seconds} s");
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "body-too-slow",
            "Request Timeout",
            detail,
        )
    }

    /// The connection ended before the whole body had arrived.
    pub(crate) fn incomplete_body() -> Self {
        Self::bad_request("incomplete-body", "the body is incomplete")
    }

    pub(crate) fn media_type(found: &str) -> Self {
        let found: String = found.chars().take(80).collect();
        let detail = format!("the content type is {found:?}; it must be application/json");
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not-json",
            "Unsupported Media Type",
            detail,
        )
    }

    /// The request is malformed.
    pub(crate) fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, "Bad Request", detail)
    }

    /// The request is well-formed but cannot be carried out.
    pub(crate) fn unprocessable(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            code,
            "Unprocessable Content",
            detail,
        )
    }

    pub(crate) fn unauthorized() -> Self {
        let detail = "missing or wrong token: send the value of TOLLGATE_ADMIN_TOKEN \
                      as `Authorization: Bearer <token>`";
        Self::new(StatusCode::UNAUTHORIZED, "no-token", "Unauthorized", detail)
    }

    /// A browser sent the request for a page of another site.
    pub(crate) fn cross_site() -> Self {
        let detail = "cross-site request: send it from a program or from this service's own page";
        Self::new(StatusCode::FORBIDDEN, "cross-site", "Forbidden", detail)
    }

    /// The request names a host that an attacker could have pointed at this address.
    pub(crate) fn foreign_host(found: &str) -> Self {
        let found: String = found.chars().take(80).collect();
        let detail = format!(
            "the host is {found:?}; without an admin token it must be an IP address or localhost, \
             as a protection against DNS rebinding"
        );
        Self::new(StatusCode::FORBIDDEN, "foreign-host", "Forbidden", detail)
    }

    /// The service's state does not allow the operation.
    pub(crate) fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, "Conflict", detail)
    }

    /// A bug in the service.
    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Internal Server Error",
            detail,
        )
    }

    /// The body is not JSON, or not the JSON that is expected.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        match error.classify() {
            serde_json::error::Category::Data => Self::unprocessable(
                "invalid-body",
                format!("invalid body: {}", shortened(&error.to_string())),
            ),
            _ => Self::bad_request("bad-json", format!("the body is not valid JSON: {error}")),
        }
    }

    pub(crate) fn overloaded() -> Self {
        Self::unavailable(
            "overloaded",
            "too many requests in flight; retry in a second",
        )
    }

    /// The service cannot carry out the request now but may be able to in a second.
    pub(crate) fn unavailable(code: &'static str, detail: impl Into<String>) -> Self {
        let error = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            code,
            "Service Unavailable",
            detail,
        );

        Self {
            retry_after_secs: Some(1),
            ..error
        }
    }

    fn store_unavailable(error: &tollgate::StoreError) -> Self {
        Self::unavailable(
            "store-unavailable",
            format!("{error}; this operation has no fallback, retry in a second"),
        )
    }
}

/// Cuts the middle out of a long message that repeats part of the request: its start says what is
/// wrong, its end says where.
fn shortened(text: &str) -> Cow<'_, str> {
    const KEPT: usize = 150;
    let count = text.chars().count();
    if count <= 2 * KEPT {
        return text.into();
    }

    let start = text.chars().take(KEPT);
    let end = text.chars().skip(count - KEPT);
    start
        .chain(" ... ".chars())
        .chain(end)
        .collect::<String>()
        .into()
}

impl From<DecideError> for ApiError {
    fn from(error: DecideError) -> Self {
        if let Some(store_error) = error.store_error() {
            return Self::store_unavailable(store_error);
        }

        let code = match &error {
            DecideError::Select(SelectError::UnknownLimit { .. })
            | DecideError::Limiter(tollgate::Error::UnknownLimit { .. }) => "unknown-limit",
            DecideError::Select(SelectError::MissingAttribute { .. }) => "missing-attribute",
            DecideError::Select(SelectError::Address { .. }) => "bad-address",
            DecideError::Select(SelectError::Cost { .. }) => "bad-cost",
            DecideError::Limiter(tollgate::Error::TooManyLimits) => "too-many-limits",
            DecideError::Limiter(tollgate::Error::DuplicateLimit { .. }) => "duplicate-limit",
            _ => "bad-key",
        };
        Self::unprocessable(code, error.to_string())
    }
}

impl From<PermitTokenError> for ApiError {
    fn from(error: PermitTokenError) -> Self {
        Self::unprocessable("bad-permit", error.to_string())
    }
}
