//! Reading a request's body before it is decided about, so that keys and costs can depend on it.
//! Bounded.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use tower_layer::Layer;
use tower_service::Service;

use crate::answer::{Cause, Refusal};
use crate::body::ResponseBody;
use crate::head::Head;

/// What was read.
#[derive(Clone, Debug)]
pub(crate) struct BodyRead(pub(crate) Bytes);

/// Reads bodies up to a length, for the limits inside that look into them: with
/// [`by::body`](crate::by::body) for a key, or [`Head::body`](crate::Head::body) for a cost. Longer
/// ones are answered with status 413. Put a limit by address outside of it, so that nobody makes
/// the server read for nothing.
///
/// ```
/// use std::time::Duration;
/// use http::StatusCode;
/// use tollgate::{Limit, Limiter};
/// use tollgate_tower::{RateLimitLayer, ReadBodyLayer, by};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("account", 5, Duration::from_secs(900))]);
/// let account = by::body("an account", |body| String::from_utf8(body.to_vec()).ok());
/// let account = RateLimitLayer::new(&limiter, "account", account.or_refuse(StatusCode::BAD_REQUEST));
/// // The first of a pair is outside.
/// let layers = (ReadBodyLayer::up_to(4 * 1024), account);
/// # let _ = layers;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReadBodyLayer {
    bytes_max: usize,
}

impl ReadBodyLayer {
    /// Reads at most so many bytes.
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

/// A service whose requests come with their bodies read. See [`ReadBodyLayer`].
#[derive(Clone, Debug)]
pub struct ReadBody<S> {
    inner: S,
    bytes_max: usize,
}

type Reading<B, E> = Pin<Box<dyn Future<Output = Result<Response<ResponseBody<B>>, E>> + Send>>;

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
    type Future = Reading<B, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let most = self.bytes_max;
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let body = match Limited::new(body, most).collect().await {
                Ok(body) => body.to_bytes(),
                Err(error) => {
                    let cause = if error.is::<LengthLimitError>() {
                        Cause::TooLong { most }
                    } else {
                        Cause::Unreadable
                    };
                    let request = Request::from_parts(parts, ());
                    let response = Refusal::new(Head::of(&request), &cause).to_response();
                    return Ok(response.map(ResponseBody::own));
                }
            };
            parts.extensions.insert(BodyRead(body.clone()));
            let response = inner
                .call(Request::from_parts(parts, Full::new(body)))
                .await?;
            let status = response.status();
            Ok(response.map(|body| ResponseBody::passed(body, status, None)))
        })
    }
}
