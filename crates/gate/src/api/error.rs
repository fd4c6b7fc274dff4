//! Errors of the decision API, as `application/problem+json` bodies.

use std::borrow::Cow;

use http::{Method, StatusCode};
use tollgate::algorithm::AMOUNT_MAX;
use tollgate_http::Problem;
use tollgate_rules::{InlineLimitError, SelectError};

use crate::{AccessError, DecideError, PermitTokenError};

/// The longest path that a message repeats, in characters; longer ones are cut off.
const PATH_CHARS: usize = 80;
/// The code of an operation that the store did not carry out.
const STORE_UNAVAILABLE: &str = "store-unavailable";

/// Why a request could not be served.
#[derive(Debug)]
pub struct ApiError {
    /// The status of the response.
    pub status: StatusCode,
    /// The cause, for programs.
    pub code: &'static str,
    /// What was found and what is expected, for humans.
    detail: Cow<'static, str>,
    /// The methods that the path accepts, if another one was used.
    pub allow: Option<&'static str>,
    /// When to retry, in seconds.
    pub retry_after_secs: Option<u64>,
    /// Whether the same request can succeed later: the cause was the service, the network or the
    /// speed of the client, and not what the request says.
    is_retryable: bool,
}

impl ApiError {
    /// An error with this status. Only time-outs and an unavailable service are worth a retry.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            allow: None,
            retry_after_secs: None,
            is_retryable: matches!(
                status,
                StatusCode::REQUEST_TIMEOUT | StatusCode::SERVICE_UNAVAILABLE
            ),
        }
    }

    /// The body of the response.
    pub fn problem(&self) -> Problem<'_> {
        let mut problem = Problem::new(self.status, &*self.detail);
        problem.code = Some(self.code);
        problem.retryable = Some(self.is_retryable);
        problem
    }

    /// An unknown path of the HTTP port.
    pub fn not_found(path: &str) -> Self {
        Self::unknown_path(path, "GET /openapi.json describes all paths")
    }

    /// An unknown path of the admin port, whose first page lists the paths.
    pub fn admin_not_found(path: &str) -> Self {
        let hint = "this is the admin port; the check API is on the address of --http";
        Self::unknown_path(path, hint)
    }

    fn unknown_path(path: &str, hint: &str) -> Self {
        let path: String = path.chars().take(PATH_CHARS).collect();
        let detail = format!("unknown path {path:?}; {hint}");
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// Another method than the path accepts.
    pub fn method_not_allowed(found: &Method, allow: &'static str) -> Self {
        let found: String = found.as_str().chars().take(20).collect();
        let expected = allow.replace(", ", " or ");
        let error = Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            format!("the method is {found}; it must be {expected}"),
        );

        Self {
            allow: Some(allow),
            ..error
        }
    }

    /// The body is longer than its bound.
    pub fn body_too_large(bytes_max: usize) -> Self {
        let detail = format!("the body is longer than {bytes_max} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail)
    }

    /// The body did not arrive in time.
    pub fn body_too_slow(seconds: f64) -> Self {
        let detail = format!("the body did not arrive within {seconds} s");
        Self::new(StatusCode::REQUEST_TIMEOUT, "body-too-slow", detail)
    }

    /// The connection ended before the whole body had arrived.
    pub fn incomplete_body() -> Self {
        Self {
            is_retryable: true,
            ..Self::bad_request("incomplete-body", "the body is incomplete")
        }
    }

    /// The request is malformed.
    pub fn bad_request(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// The request is well-formed but cannot be carried out.
    pub fn unprocessable(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    /// The number of tokens of a kind cannot be added to the attributes.
    pub fn bad_tokens(name: &str) -> Self {
        let detail = format!("too many attributes, or {name:?} and `tokens` name the same");
        Self::unprocessable("bad-tokens", detail)
    }

    /// There are numbers of tokens, but none that a limit counts.
    pub fn no_token_counts() -> Self {
        let detail = "`tokens` has no number that a limit counts: send those of the kinds that the \
                      limits count, or the units as `cost`";
        Self::unprocessable("bad-tokens", detail)
    }

    /// The number of tokens of a kind is not valid.
    pub fn bad_token_count(kind: &str, found: &str) -> Self {
        let (kind, found) = (shortened(kind), shortened(found));
        let detail = format!(
            "invalid number of tokens {found} for `{kind}`: must be a whole number up to \
             {AMOUNT_MAX}"
        );
        Self::unprocessable("bad-tokens", detail)
    }

    /// The admin port requires a token, and the request has none or another one.
    pub fn no_admin_token() -> Self {
        let detail = "missing or wrong token: send the value of TOLLGATE_ADMIN_TOKEN \
                      as `Authorization: Bearer <token>`";
        Self::new(StatusCode::UNAUTHORIZED, "no-token", detail)
    }

    /// The service's state does not allow the operation.
    pub fn conflict(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// A bug in the service.
    pub fn internal(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// The body is not JSON, or not the JSON that is expected.
    pub fn json(error: &serde_json::Error) -> Self {
        match error.classify() {
            serde_json::error::Category::Data => Self::unprocessable(
                "invalid-body",
                format!("invalid body: {}", shortened(&error.to_string())),
            ),
            _ => Self::bad_request("bad-json", format!("the body is not valid JSON: {error}")),
        }
    }

    /// Too many requests are in flight.
    pub fn overloaded() -> Self {
        Self::unavailable(
            "overloaded",
            "too many requests in flight; retry in a second",
        )
    }

    /// The request came over a connection beyond `connections_max`.
    pub fn too_many_connections() -> Self {
        Self::unavailable("overloaded", "too many connections; retry in a second")
    }

    /// The service cannot carry out the request now but may be able to in a second.
    pub fn unavailable(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail);

        Self {
            retry_after_secs: Some(1),
            ..error
        }
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

impl AccessError {
    /// The cause, for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::MissingToken => "no-token",
            Self::UnknownToken => "wrong-token",
            Self::NotPermitted { .. } => "not-permitted",
        }
    }
}

impl From<AccessError> for ApiError {
    fn from(error: AccessError) -> Self {
        let status = match &error {
            AccessError::MissingToken | AccessError::UnknownToken => StatusCode::UNAUTHORIZED,
            AccessError::NotPermitted { .. } => StatusCode::FORBIDDEN,
        };
        let detail = match status {
            StatusCode::UNAUTHORIZED => format!(
                "{error}: send one of `server.tokens` as `Authorization: Bearer <token>` or \
                 `X-Tollgate-Token: <token>`"
            ),
            _ => error.to_string(),
        };
        Self::new(status, error.code(), detail)
    }
}

impl DecideError {
    /// The cause, for programs. Every front counts the error under it.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Select(error) => select_code(error),
            Self::Limiter(tollgate::Error::Store(_)) => STORE_UNAVAILABLE,
            Self::Limiter(tollgate::Error::UnknownLimit { .. }) => "unknown-limit",
            Self::Limiter(tollgate::Error::TooManyLimits) => "too-many-limits",
            Self::Limiter(tollgate::Error::DuplicateLimit { .. }) => "duplicate-limit",
            Self::Limiter(_) => "bad-key",
        }
    }
}

/// Why no limits could be selected, for programs.
pub const fn select_code(error: &SelectError) -> &'static str {
    match error {
        SelectError::Inline(InlineLimitError::NotAllowed(_)) => "inline-not-allowed",
        SelectError::Inline(_) => "bad-limit",
        SelectError::Configured { .. } => "limit-is-configured",
        SelectError::UnknownLimit { .. } => "unknown-limit",
        SelectError::MissingAttribute { .. } => "missing-attribute",
        SelectError::AmbiguousPath { .. } => "ambiguous-path",
        SelectError::Address { .. } => "bad-address",
        SelectError::Cost { .. } | SelectError::Amount { .. } => "bad-cost",
        SelectError::TokenKind(_) => "bad-tokens",
        SelectError::TooManyValues { .. } | SelectError::TooManyKeys { .. } => "too-many-values",
        _ => "bad-key",
    }
}

impl From<DecideError> for ApiError {
    fn from(error: DecideError) -> Self {
        if let Some(store_error) = error.store_error() {
            return Self::unavailable(
                STORE_UNAVAILABLE,
                format!("{store_error}; this operation has no fallback, retry in a second"),
            );
        }

        let code = error.code();
        if let DecideError::Select(SelectError::Inline(InlineLimitError::NotAllowed(reason))) =
            &error
        {
            return Self::new(StatusCode::FORBIDDEN, code, reason.clone());
        }
        Self::unprocessable(code, shortened(&error.to_string()).into_owned())
    }
}

impl From<PermitTokenError> for ApiError {
    fn from(error: PermitTokenError) -> Self {
        let code = match error {
            PermitTokenError::Access(error) => return error.into(),
            PermitTokenError::Select(error) => return DecideError::from(error).into(),
            PermitTokenError::Store(error) => {
                return DecideError::from(tollgate::Error::Store(error)).into();
            }
            ref error if error.is_about_permit() => "bad-permit",
            _ => "bad-reservation",
        };
        Self::unprocessable(code, error.to_string())
    }
}
