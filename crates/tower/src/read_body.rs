//! Reads a request body up to a maximum length before the limits are checked, so that keys and
//! costs can depend on it.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use tower_layer::Layer;
use tower_service::Service;

use crate::future::{BoxedResponse, take_ready};
use crate::rejection::{Rejection, RejectionCause};
use crate::request_head::{BufferedBody, RequestHead};
use crate::response_body::ResponseBody;

/// Reads request bodies for the limits inside of this layer: for a key with
/// [`by::body`](crate::by::body), or for a cost with
/// [`RequestHead::body`](crate::RequestHead::body).
///
/// A body longer than the maximum is rejected with status 413. Put a limit by client address
/// outside of this layer, so that a client over its limit cannot make the server read bodies.
///
/// ```
/// use std::time::Duration;
/// use http::StatusCode;
/// use tollgate::{Limit, Limiter};
/// use tollgate_tower::{RateLimitLayer, ReadBodyLayer, by};
///
/// let limiter = Limiter::in_memory([
///     Limit::sliding_log("login-address", 50, Duration::from_secs(900)),
///     Limit::sliding_log("login-account", 5, Duration::from_secs(900)),
/// ])?;
/// let account = by::body("an account", |body| String::from_utf8(body.to_vec()).ok())
///     .or_reject(StatusCode::BAD_REQUEST);
/// // The first layer of a tuple is the outermost.
/// let layers = (
///     RateLimitLayer::new(&limiter, "login-address", by::client_address()),
///     ReadBodyLayer::up_to(4 * 1024),
///     RateLimitLayer::new(&limiter, "login-account", account),
/// );
/// # let _ = layers;
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReadBodyLayer {
    bytes_max: usize,
}

impl ReadBodyLayer {
    /// Reads bodies of at most `bytes_max` bytes.
    pub const fn up_to(bytes_max: usize) -> Self {
        Self { bytes_max }
    }
}

impl<S> Layer<S> for ReadBodyLayer {
    type Service = ReadBody<S>;

    fn layer(&self, inner: S) -> ReadBody<S> {
        ReadBody {
            inner,
            bytes_max: self.bytes_max,
        }
    }
}

/// A service that gets its request bodies read in advance. Created by [`ReadBodyLayer`].
#[derive(Clone, Debug)]
pub struct ReadBody<S> {
    inner: S,
    bytes_max: usize,
}

impl<S, R, B> Service<Request<R>> for ReadBody<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<ResponseBody<B>>;
    type Error = S::Error;
    type Future = BoxedResponse<B, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let mut inner = take_ready(&mut self.inner);
        let bytes_max = self.bytes_max;

        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let body = match Limited::new(body, bytes_max).collect().await {
                Ok(body) => body.to_bytes(),
                Err(error) => {
                    let cause = if error.is::<LengthLimitError>() {
                        RejectionCause::BodyTooLong { bytes_max }
                    } else {
                        RejectionCause::BodyUnreadable
                    };
                    let request = Request::from_parts(parts, ());
                    let rejection = Rejection::new(RequestHead::new(&request), &cause);
                    return Ok(rejection.to_response().map(ResponseBody::from_rejection));
                }
            };

            parts.extensions.insert(BufferedBody(body.clone()));
            let request = Request::from_parts(parts, Full::new(body));
            let response = inner.call(request).await?;
            Ok(ResponseBody::wrap(response))
        })
    }
}
