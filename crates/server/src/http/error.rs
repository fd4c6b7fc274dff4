//! What can be wrong with a request, as an `application/problem+json` body that names it.

use std::borrow::Cow;

use hyper::{Method, StatusCode};
use serde::Serialize;
use tollgate_rules::SelectError;

use crate::gate::{DecideError, PermitTokenError};

/// Why a request got no decision.
#[derive(Debug, Serialize)]
pub(crate) struct ApiError {
    #[serde(rename = "type")]
    kind: &'static str,
    /// The kind in words, the same for every fault of the kind.
    title: &'static str,
    #[serde(serialize_with = "number")]
    pub(crate) status: StatusCode,
    /// What was found and what would be right.
    detail: String,
    /// A word for programs.
    pub(crate) code: &'static str,
    /// The methods there are, where the one used is none of them.
    #[serde(skip)]
    pub(crate) allow: Option<&'static str>,
    /// When to come back, in seconds.
    #[serde(skip)]
    pub(crate) retry_after_secs: Option<u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
fn number<S: serde::Serializer>(status: &StatusCode, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u16(status.as_u16())
}

impl ApiError {
    fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        let detail = detail.into();
        Self {
            kind: "about:blank",
            title,
            status,
            detail,
            code,
            allow: None,
            retry_after_secs: None,
        }
    }

    pub(crate) fn not_found(path: &str) -> Self {
        let path: String = path.chars().take(80).collect();
        let detail = format!("there is nothing at {path:?}; GET /openapi.json says what there is");
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not Found", detail)
    }

    /// The same on the admin port, whose first page says what there is.
    pub(crate) fn not_listed(path: &str) -> Self {
        let path: String = path.chars().take(80).collect();
        let detail = format!("there is nothing at {path:?}; GET / lists what there is");
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not Found", detail)
    }

    pub(crate) fn method(found: &Method, allow: &'static str) -> Self {
        let found: String = found.as_str().chars().take(20).collect();
        let detail = format!(
            "the method is {found}; it must be {}",
            allow.replace(", ", " or ")
        );
        let fault = Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "Method Not Allowed",
            detail,
        );
        Self {
            allow: Some(allow),
            ..fault
        }
    }

    /// The body is too long.
    pub(crate) fn too_large(body_max: usize) -> Self {
        let detail = format!("the body is longer than {body_max} bytes");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body-too-large",
            "Content Too Large",
            detail,
        )
    }

    /// The body did not come in time.
    pub(crate) fn too_slow(seconds: f64) -> Self {
        let detail = format!("the body did not arrive within {seconds} s");
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "body-too-slow",
            "Request Timeout",
            detail,
        )
    }

    /// The body broke off.
    pub(crate) fn broken_off() -> Self {
        Self::malformed("broken-off", "the body broke off")
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

    /// The request cannot be read.
    pub(crate) fn malformed(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, "Bad Request", detail)
    }

    /// The request can be read and makes no sense.
    pub(crate) fn unfit(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            code,
            "Unprocessable Content",
            detail,
        )
    }

    pub(crate) fn unauthorized() -> Self {
        let detail = "this port wants the token of TOLLGATE_ADMIN_TOKEN, as in `Authorization: Bearer <token>`";
        Self::new(StatusCode::UNAUTHORIZED, "no-token", "Unauthorized", detail)
    }

    /// A request that a page of another site made a browser send.
    pub(crate) fn cross_site() -> Self {
        let detail = "the request comes from a page of another site; send it from a program, or from this site's own page";
        Self::new(StatusCode::FORBIDDEN, "cross-site", "Forbidden", detail)
    }

    /// A name for this port that anyone can make up and point here.
    pub(crate) fn foreign_host(found: &str) -> Self {
        let found: String = found.chars().take(80).collect();
        let detail = format!(
            "the request is for the host {found:?}; without a token it must be for an address or localhost, \
             so that no web page can get here by a name of its own"
        );
        Self::new(StatusCode::FORBIDDEN, "foreign-host", "Forbidden", detail)
    }

    /// What is asked for cannot be done in this state of the service.
    pub(crate) fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, "Conflict", detail)
    }

    /// Something that should not happen.
    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Internal Server Error",
            detail,
        )
    }

    /// The JSON is none, or not the one that is wanted.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        match error.classify() {
            serde_json::error::Category::Data => Self::unfit(
                "unfit-body",
                format!("the body does not fit: {}", shortened(&error.to_string())),
            ),
            _ => Self::malformed("bad-json", format!("the body is no JSON: {error}")),
        }
    }

    pub(crate) fn overloaded() -> Self {
        Self::busy(
            "overloaded",
            "as many requests are being answered as may; try again in a second",
        )
    }

    /// There is no room, or no time, for what is asked just now.
    pub(crate) fn busy(code: &'static str, detail: impl Into<String>) -> Self {
        let fault = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            code,
            "Service Unavailable",
            detail,
        );
        Self {
            retry_after_secs: Some(1),
            ..fault
        }
    }

    fn store_away(error: &tollgate::StoreError) -> Self {
        Self::busy(
            "store-unavailable",
            format!("{error}; nothing stands in for it here, so try again in a second"),
        )
    }
}

/// What is shown of a text that repeats some of the request: its beginning says what, and its end
/// says where.
fn shortened(text: &str) -> Cow<'_, str> {
    const KEPT: usize = 150;
    let count = text.chars().count();
    if count <= 2 * KEPT {
        return text.into();
    }
    let beginning = text.chars().take(KEPT);
    beginning
        .chain(" ... ".chars())
        .chain(text.chars().skip(count - KEPT))
        .collect::<String>()
        .into()
}

impl From<DecideError> for ApiError {
    fn from(undecided: DecideError) -> Self {
        if let Some(error) = undecided.store_error() {
            return Self::store_away(error);
        }
        let code = match &undecided {
            DecideError::Select(SelectError::UnknownLimit { .. })
            | DecideError::Limiter(tollgate::Error::UnknownLimit { .. }) => "unknown-limit",
            DecideError::Select(SelectError::MissingAttribute { .. }) => "missing-attribute",
            DecideError::Select(SelectError::Address { .. }) => "bad-address",
            DecideError::Select(SelectError::Cost { .. }) => "bad-cost",
            DecideError::Limiter(tollgate::Error::TooManyLimits) => "too-many-limits",
            DecideError::Limiter(tollgate::Error::DuplicateLimit { .. }) => "limit-named-twice",
            _ => "bad-key",
        };
        Self::unfit(code, undecided.to_string())
    }
}

impl From<PermitTokenError> for ApiError {
    fn from(wrong: PermitTokenError) -> Self {
        Self::unfit("bad-permit", wrong.to_string())
    }
}
