//! What is known of a response before its body: the view by which a request is charged less, or
//! more.

use http::header::AsHeaderName;
use http::{Extensions, HeaderMap, Response, StatusCode};

/// A response without its body, or the trailers with which a gRPC call ends.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'r> {
    status: Option<StatusCode>,
    headers: Option<&'r HeaderMap>,
    extensions: Option<&'r Extensions>,
}

impl<'r> Reply<'r> {
    /// No response came: the service failed.
    pub(crate) const NONE: Self = Self {
        status: None,
        headers: None,
        extensions: None,
    };

    /// The view of a response.
    pub fn of<B>(response: &'r Response<B>) -> Self {
        let (headers, extensions) = (Some(response.headers()), Some(response.extensions()));
        Self {
            status: Some(response.status()),
            headers,
            extensions,
        }
    }

    pub(crate) const fn ended(status: StatusCode, trailers: &'r HeaderMap) -> Self {
        Self {
            status: Some(status),
            headers: Some(trailers),
            extensions: None,
        }
    }

    /// The status; `None` when the service failed without an answer.
    pub const fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// The value of a header, or of a trailer where those decide, if it is a text.
    pub fn header(&self, name: impl AsHeaderName) -> Option<&'r str> {
        self.headers
            .and_then(|headers| headers.get(name))
            .and_then(|value| value.to_str().ok())
    }

    /// What the application has attached to its response, such as what it turned out to cost.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&'r T> {
        self.extensions.and_then(|extensions| extensions.get())
    }

    /// The status of a gRPC call, once it is known.
    pub fn grpc_status(&self) -> Option<u32> {
        self.header("grpc-status")?.parse().ok()
    }

    /// True for the beginning of a gRPC answer whose end will say how it went.
    pub(crate) fn is_unfinished_call(&self) -> bool {
        let kind = self.header(http::header::CONTENT_TYPE);
        kind.is_some_and(|kind| kind.starts_with("application/grpc"))
            && self.grpc_status().is_none()
    }
}

/// True when the request was served: a status below 400, and for gRPC the status OK.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
/// use tollgate_tower::{RateLimitLayer, by, reply};
///
/// // Five wrong passwords in a quarter of an hour; right ones are free.
/// let limiter = Limiter::in_memory([Limit::sliding_log("login", 5, Duration::from_secs(900))]);
/// let layer = RateLimitLayer::new(&limiter, "login", by::client_address()).refund_when(reply::succeeded);
/// # let _ = layer;
/// ```
pub fn succeeded(reply: &Reply<'_>) -> bool {
    match (reply.grpc_status(), reply.status) {
        (Some(code), _) => code == 0,
        (None, Some(status)) => status.as_u16() < 400,
        (None, None) => false,
    }
}

/// True when the service is to blame: no response, a status of 500 or above, and for gRPC what
/// stands for that.
pub fn failed(reply: &Reply<'_>) -> bool {
    match (reply.grpc_status(), reply.status) {
        // Unknown, unimplemented, internal, unavailable, data loss.
        (Some(code), _) => matches!(code, 2 | 12..=15),
        (None, Some(status)) => status.is_server_error(),
        (None, None) => true,
    }
}
