//! The response to a rejected request.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use tollgate::Decision;

use super::cause::RejectionCause;
use super::grpc;
use crate::request_head::RequestHead;

/// Makes the response to a rejected request, in place of [`Rejection::to_response`].
pub(crate) type RejectionHandler = Arc<dyn Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync>;

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
/// # Ok::<(), tollgate::Error>(())
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
        self.cause.decision()
    }

    /// The HTTP status for the cause.
    pub fn status(&self) -> StatusCode {
        self.cause.status()
    }

    /// The default response: an `application/problem+json` document, or for gRPC a status with a
    /// retry delay. The layer adds the rate limit fields to this or any other response.
    pub fn to_response(&self) -> Response<Bytes> {
        if self.head.is_grpc() {
            grpc::response(&self.head, self.cause)
        } else {
            self.cause.problem().to_response()
        }
    }
}
