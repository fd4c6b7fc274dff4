//! The server-side middleware.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Request, Response};
use http_body::Body;
use tollgate_http::Fields;
use tower_service::Service;

use crate::admission::{SyncAdmission, admit, try_admit};
use crate::future::{AdmittedFuture, RateLimitFuture, take_ready};
use crate::policy::LayerPolicy;
use crate::rejection::{Rejection, RejectionCause};
use crate::request_head::RequestHead;
use crate::response_body::ResponseBody;

/// A service whose requests are rate limited. Created by
/// [`RateLimitLayer`](crate::RateLimitLayer).
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    policy: Arc<LayerPolicy>,
}

impl<S> RateLimit<S> {
    pub(crate) const fn new(inner: S, policy: Arc<LayerPolicy>) -> Self {
        Self { inner, policy }
    }

    /// The inner service.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, R, B> Service<Request<R>> for RateLimit<S>
where
    S: Service<Request<R>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    R: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<ResponseBody<B>>;
    type Error = S::Error;
    type Future = RateLimitFuture<S::Future, B, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<R>) -> Self::Future {
        // The fast path needs neither an allocation nor a clone of the service.
        let demand = match try_admit(&self.policy, &mut request) {
            SyncAdmission::Complete(Ok(admitted)) => {
                let inner = self.inner.call(request);
                return RateLimitFuture::admitted(AdmittedFuture::new(inner, admitted));
            }
            SyncAdmission::Complete(Err(cause)) => {
                let response = reject(&self.policy, &request, &cause);
                return RateLimitFuture::boxed(Box::pin(std::future::ready(Ok(response))));
            }
            SyncAdmission::Incomplete(demand) => demand,
        };

        let mut inner = take_ready(&mut self.inner);
        let policy = self.policy.clone();
        RateLimitFuture::boxed(Box::pin(async move {
            match admit(&policy, &mut request, demand).await {
                Ok(admitted) => AdmittedFuture::new(inner.call(request), admitted).await,
                Err(cause) => Ok(reject(&policy, &request, &cause)),
            }
        }))
    }
}

/// The response to a rejected request.
fn reject<R, B>(
    policy: &LayerPolicy,
    request: &Request<R>,
    cause: &RejectionCause,
) -> Response<ResponseBody<B>> {
    policy.monitor.record_rejection(cause);
    let rejection = Rejection::new(RequestHead::new(request), cause);
    let mut response = match &policy.respond {
        Some(respond) => respond(&rejection),
        None => rejection.to_response(),
    };

    let headers = response.headers_mut();
    // The same request may be allowed a moment later, so caches must not store this response.
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if let (Some(decision), Some(enabled)) = (cause.decision(), policy.fields) {
        Fields::new(decision, enabled, policy.limiter.clock().now()).add_to(headers);
    }
    response.map(ResponseBody::from_rejection)
}
