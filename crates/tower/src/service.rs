//! The server-side middleware.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::future::{AdmittedFuture, RateLimitFuture};
use crate::policy::{AdmissionResult, LayerPolicy, SyncAdmission};
use crate::rejection::RejectionCause;
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
        let demand = match self.policy.try_admit(&mut request) {
            SyncAdmission::Complete(AdmissionResult::Admitted(admitted)) => {
                let inner = self.inner.call(request);
                return RateLimitFuture::admitted(AdmittedFuture::new(inner, admitted));
            }
            SyncAdmission::Complete(AdmissionResult::Rejected(cause)) => {
                return RateLimitFuture::rejected(reject(&self.policy, &request, &cause));
            }
            SyncAdmission::Incomplete(demand) => demand,
        };

        // The service that is ready handles this request; its clone becomes ready for the next.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let policy = self.policy.clone();

        RateLimitFuture::pending(Box::pin(async move {
            let admitted = match policy.admit(&mut request, demand).await {
                AdmissionResult::Admitted(admitted) => admitted,
                AdmissionResult::Rejected(cause) => return Ok(reject(&policy, &request, &cause)),
            };
            AdmittedFuture::new(inner.call(request), admitted).await
        }))
    }
}

fn reject<R, B>(
    policy: &LayerPolicy,
    request: &Request<R>,
    cause: &RejectionCause,
) -> Response<ResponseBody<B>> {
    policy.monitor.record_rejection(cause);
    policy
        .reject(RequestHead::new(request), cause)
        .map(ResponseBody::from_rejection)
}
