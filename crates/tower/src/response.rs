//! The response without its body: what refunds and final costs are computed from.

use http::header::AsHeaderName;
use http::{Extensions, HeaderMap, Response, StatusCode};

/// A borrowed response without its body, or the trailers that end a gRPC call.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'r> {
    status: Option<StatusCode>,
    headers: Option<&'r HeaderMap>,
    extensions: Option<&'r Extensions>,
}

impl<'r> ResponseHead<'r> {
    /// The service failed and there is no response.
    pub(crate) const NONE: Self = Self {
        status: None,
        headers: None,
        extensions: None,
    };

    /// Borrows the head of a response.
    pub fn new<B>(response: &'r Response<B>) -> Self {
        Self {
            status: Some(response.status()),
            headers: Some(response.headers()),
            extensions: Some(response.extensions()),
        }
    }

    /// The end of a response that had this HTTP status. [`header`](Self::header) reads the
    /// trailers.
    pub(crate) const fn from_trailers(status: StatusCode, trailers: &'r HeaderMap) -> Self {
        Self {
            status: Some(status),
            headers: Some(trailers),
            extensions: None,
        }
    }

    /// The HTTP status; `None` if the service failed without a response.
    pub const fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// The value of a header (of a trailer, at the end of a gRPC call), if it is visible ASCII.
    pub fn header(&self, name: impl AsHeaderName) -> Option<&'r str> {
        self.headers
            .and_then(|headers| headers.get(name))
            .and_then(|value| value.to_str().ok())
    }

    /// An extension that the application has added to its response, such as the request's cost.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&'r T> {
        self.extensions.and_then(|extensions| extensions.get())
    }

    /// The status of a gRPC call; `None` until the call has ended.
    pub fn grpc_status(&self) -> Option<u32> {
        self.header("grpc-status")?.parse().ok()
    }

    /// Whether this is the start of a gRPC response whose status comes in the trailers.
    pub(crate) fn is_unfinished_call(&self) -> bool {
        let content_type = self.header(http::header::CONTENT_TYPE);
        content_type.is_some_and(|value| value.starts_with("application/grpc"))
            && self.grpc_status().is_none()
    }
}

/// Whether the request succeeded: an HTTP status below 400, or for gRPC the status `OK`.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
/// use tollgate_tower::{RateLimitLayer, by, response};
///
/// // Five failed downloads in a quarter of an hour; successful ones are free.
/// let limiter = Limiter::in_memory([
///     Limit::sliding_log("download-errors", 5, Duration::from_secs(900)),
/// ])?;
/// let layer = RateLimitLayer::new(&limiter, "download-errors", by::client_address())
///     .refund_when(response::succeeded);
/// # let _ = layer;
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn succeeded(response: &ResponseHead<'_>) -> bool {
    match (response.grpc_status(), response.status) {
        (Some(code), _) => code == 0,
        (None, Some(status)) => status.as_u16() < 400,
        (None, None) => false,
    }
}

/// Whether the server failed: no response, an HTTP status of 500 or above, or one of the gRPC
/// statuses `UNKNOWN`, `UNIMPLEMENTED`, `INTERNAL`, `UNAVAILABLE` and `DATA_LOSS`.
pub fn failed(response: &ResponseHead<'_>) -> bool {
    match (response.grpc_status(), response.status) {
        // UNKNOWN is 2; UNIMPLEMENTED to DATA_LOSS are 12 to 15.
        (Some(code), _) => matches!(code, 2 | 12..=15),
        (None, Some(status)) => status.is_server_error(),
        (None, None) => true,
    }
}
