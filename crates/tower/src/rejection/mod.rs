//! Rejections: the response to a request that is not admitted, for HTTP and gRPC.

mod grpc;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Response, StatusCode};
use tollgate::Decision;
use tollgate_http::{Fields, Problem};

use crate::policy::LayerPolicy;
use crate::request_head::RequestHead;

/// Makes the response to a rejected request, in place of [`Rejection::to_response`].
pub(crate) type RejectionHandler = Arc<dyn Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync>;

/// Why a request is rejected.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RejectionCause {
    /// A limit denied the request, or its failure policy did because the store is unavailable.
    Denied(Decision),
    /// The request is on the deny list of the layer.
    DenyListed,
    /// The request has no key, and the limit rejects such requests.
    MissingKey {
        /// The status that was given to [`or_reject`](crate::by::OptionalKey::or_reject).
        status: StatusCode,
        /// The missing key as a noun with its article, such as `the header x-api-key`.
        description: String,
    },
    /// The key is invalid, for example too long.
    InvalidKey {
        /// The limit that the key is for.
        limit: Arc<str>,
        /// What is wrong with the key.
        reason: String,
    },
    /// The body is longer than the [`ReadBodyLayer`](crate::ReadBodyLayer) reads.
    BodyTooLong {
        /// The maximum length in bytes.
        bytes_max: usize,
    },
    /// The body could not be read.
    BodyUnreadable,
    /// The layer is set up wrongly.
    Misconfigured {
        /// What is wrong and how to fix it. It is logged, and clients do not see it.
        reason: String,
    },
}

/// A rejected request and the cause.
///
/// ```
/// use bytes::Bytes;
/// use http::{Response, StatusCode};
/// use tollgate::{Limit, Limiter, Rate};
/// use tollgate_tower::{RateLimitLayer, Rejection, by};
///
/// let limiter = Limiter::in_memory([Limit::token_bucket("api", 10, Rate::per_second(1))])?;
/// let layer = RateLimitLayer::new(&limiter, "api", by::everyone())
///     .respond_with(|rejection: &Rejection<'_>| {
///         if rejection.status() != StatusCode::TOO_MANY_REQUESTS {
///             return rejection.to_response();
///         }
///         let mut response = Response::new(Bytes::from_static(b"<h1>Slow down</h1>"));
///         *response.status_mut() = rejection.status();
///         response
///     });
/// # let _ = layer;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rejection<'r> {
    head: RequestHead<'r>,
    cause: &'r RejectionCause,
}

impl<'r> Rejection<'r> {
    pub(crate) const fn new(head: RequestHead<'r>, cause: &'r RejectionCause) -> Self {
        Self { head, cause }
    }

    /// The rejected request.
    pub const fn head(&self) -> RequestHead<'r> {
        self.head
    }

    /// Why the request is rejected.
    pub const fn cause(&self) -> &'r RejectionCause {
        self.cause
    }

    /// The decision, if a limit denied the request.
    pub const fn decision(&self) -> Option<&'r Decision> {
        match self.cause {
            RejectionCause::Denied(decision) => Some(decision),
            _ => None,
        }
    }

    /// The HTTP status for the cause.
    pub fn status(&self) -> StatusCode {
        self.cause.status()
    }

    /// The default response: an `application/problem+json` document, or for gRPC a status with a
    /// retry delay. The layer adds the rate limit fields to this or any other response.
    pub fn to_response(&self) -> Response<Bytes> {
        if self.head.is_grpc() {
            grpc::response(self)
        } else {
            problem(self.cause).to_response()
        }
    }
}

impl RejectionCause {
    /// The HTTP status for the cause.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Denied(decision) if decision.is_unavailable() => StatusCode::SERVICE_UNAVAILABLE,
            Self::Denied(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::DenyListed => StatusCode::FORBIDDEN,
            Self::MissingKey { status, .. } => *status,
            Self::InvalidKey { .. } | Self::BodyUnreadable => StatusCode::BAD_REQUEST,
            Self::BodyTooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Misconfigured { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// A sentence for the client.
impl fmt::Display for RejectionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(decision) => {
                let problem = Problem::denied(decision);
                let detail = problem.as_ref().map(|problem| &*problem.detail);
                f.write_str(detail.unwrap_or("Rate limit exceeded."))
            }
            Self::DenyListed => f.write_str("The request is on the deny list."),
            Self::MissingKey { description, .. } => {
                write!(f, "The request is missing {description}.")
            }
            Self::InvalidKey { limit, reason } => {
                write!(f, "Invalid key for the limit {limit:?}: {reason}.")
            }
            Self::BodyTooLong { bytes_max } => {
                write!(f, "The request body is longer than {bytes_max} bytes.")
            }
            Self::BodyUnreadable => f.write_str("The request body could not be read."),
            Self::Misconfigured { .. } => f.write_str("The server cannot apply its rate limits."),
        }
    }
}

/// The problem document for a cause.
fn problem(cause: &RejectionCause) -> Problem<'_> {
    let denial = match cause {
        RejectionCause::Denied(decision) => Problem::denied(decision),
        _ => None,
    };
    denial.unwrap_or_else(|| Problem::new(cause.status(), cause.to_string()))
}

impl LayerPolicy {
    /// The response to a rejected request.
    pub(crate) fn reject(&self, head: RequestHead<'_>, cause: &RejectionCause) -> Response<Bytes> {
        let rejection = Rejection::new(head, cause);
        let mut response = match &self.respond {
            Some(respond) => respond(&rejection),
            None => rejection.to_response(),
        };

        let headers = response.headers_mut();
        // The same request may be allowed a moment later, so caches must not store this response.
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
        if let Some(decision) = rejection.decision() {
            let now = self.limiter.clock().now();
            Fields::new(decision, self.fields, now).add_to(headers);
        }
        response
    }
}
