//! Refusals as responses: one way from a cause to a status, a body and fields, for HTTP and for
//! gRPC.

pub(crate) mod fields;
mod grpc;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;
use tollgate::Decision;
use tollgate::headers::{PROBLEM_JSON, Problem};

use crate::head::Head;
use crate::plan::Plan;

/// Makes the response to a refused request.
pub(crate) type OfRefusal = Arc<dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync>;

const PROBLEM: HeaderValue = HeaderValue::from_static(PROBLEM_JSON);

/// Why a request does not pass.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// A limit has no room for it, or refuses because the store is away.
    Limited(Decision),
    /// It is on the list of those that are never let in.
    Listed,
    /// It lacks its key, and the limit says to refuse it then.
    Missing {
        /// The status that the limit asks for.
        status: StatusCode,
        /// What is missing.
        what: String,
    },
    /// Its key cannot name a counter: too long, or empty.
    BadKey {
        /// What is wrong with it.
        what: String,
    },
    /// Its body is longer than is read.
    TooLong {
        /// The most bytes that are read.
        most: usize,
    },
    /// Its body could not be read.
    Unreadable,
    /// The application is put together wrongly.
    Broken {
        /// What is wrong and what would be right. It is logged and not told to clients.
        what: String,
    },
}

/// A request that does not pass, and why.
///
/// ```
/// use bytes::Bytes;
/// use http::{Response, StatusCode};
/// use tollgate::{Limit, Limiter, Rate};
/// use tollgate_tower::{Refusal, RateLimitLayer, by};
///
/// let limiter = Limiter::in_memory([Limit::token_bucket("api", 10, Rate::per_second(1))]);
/// let layer = RateLimitLayer::new(&limiter, "api", by::everyone()).respond_with(|refusal: &Refusal<'_>| {
///     if refusal.status() != StatusCode::TOO_MANY_REQUESTS {
///         return refusal.to_response();
///     }
///     let mut response = Response::new(Bytes::from_static(b"<h1>Slow down</h1>"));
///     *response.status_mut() = refusal.status();
///     response
/// });
/// # let _ = layer;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'r> {
    head: Head<'r>,
    cause: &'r Cause,
}

impl<'r> Refusal<'r> {
    pub(crate) const fn new(head: Head<'r>, cause: &'r Cause) -> Self {
        Self { head, cause }
    }

    /// The request.
    pub const fn head(&self) -> Head<'r> {
        self.head
    }

    /// Why it does not pass.
    pub const fn cause(&self) -> &'r Cause {
        self.cause
    }

    /// The decision, when a limit refuses.
    pub const fn decision(&self) -> Option<&'r Decision> {
        match self.cause {
            Cause::Limited(decision) => Some(decision),
            _ => None,
        }
    }

    /// The status that says it.
    pub fn status(&self) -> StatusCode {
        self.cause.status()
    }

    /// The usual response: `application/problem+json`, or for gRPC a status with when to come back.
    /// The fields that tell where the client stands are added to whatever is answered.
    pub fn to_response(&self) -> Response<Bytes> {
        if self.head.is_grpc() {
            grpc::response(self)
        } else {
            problem(self.cause)
        }
    }
}

impl Cause {
    /// The status that says it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Limited(decision) if decision.is_unavailable() => StatusCode::SERVICE_UNAVAILABLE,
            Self::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Listed => StatusCode::FORBIDDEN,
            Self::Missing { status, .. } => *status,
            Self::BadKey { .. } | Self::Unreadable => StatusCode::BAD_REQUEST,
            Self::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Broken { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// In a sentence for the client.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limited(decision) => {
                let problem = Problem::denied(decision);
                f.write_str(
                    problem
                        .as_ref()
                        .map_or("The request is limited.", |problem| &problem.detail),
                )
            }
            Self::Listed => f.write_str("Requests like this one are not let in."),
            Self::Missing { what, .. } => write!(f, "The request lacks {what}."),
            Self::BadKey { what } => write!(f, "The request cannot be counted: {what}."),
            Self::TooLong { most } => write!(f, "The request's body is longer than {most} bytes."),
            Self::Unreadable => f.write_str("The request's body could not be read."),
            Self::Broken { .. } => f.write_str("The server cannot decide about this request."),
        }
    }
}

fn problem(cause: &Cause) -> Response<Bytes> {
    let status = cause.status();
    let body = match cause {
        Cause::Limited(decision) => Problem::denied(decision).map(|problem| problem.to_json()),
        _ => None,
    };
    let body = body.unwrap_or_else(|| {
        let title = status.canonical_reason().unwrap_or("Refused");
        json!({"type": "about:blank", "title": title, "status": status.as_u16(), "detail": cause.to_string()})
            .to_string()
    });
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, PROBLEM);
    response
}

impl Plan {
    /// The response to a request that does not pass.
    pub(crate) fn refuse(&self, head: Head<'_>, cause: &Cause) -> Response<Bytes> {
        let refusal = Refusal::new(head, cause);
        let mut response = match &self.respond {
            Some(respond) => respond(&refusal),
            None => refusal.to_response(),
        };
        let headers = response.headers_mut();
        // It is true for a moment only, so nobody may keep it.
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
        if let Some(decision) = refusal.decision() {
            fields::add(headers, decision, self.fields, self.limiter.clock().now());
        }
        response
    }
}
