//! The client-side middleware: outgoing calls wait until the limits admit them, or fail before they
//! are made.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tollgate::Decision;
use tower_layer::Layer;
use tower_service::Service;

use crate::admission::admit;
use crate::future::{BoxedResponse, RateLimitFuture, take_ready};
use crate::policy::LayerPolicy;
use crate::rejection::RejectionCause;
use crate::response_body::ResponseBody;

/// Limits the calls that a client makes. Created by
/// [`RateLimitLayer::outgoing`](crate::RateLimitLayer::outgoing).
#[derive(Clone, Debug)]
pub struct OutgoingLayer {
    pub(crate) policy: Arc<LayerPolicy>,
}

impl<S> Layer<S> for OutgoingLayer {
    type Service = OutgoingService<S>;

    fn layer(&self, inner: S) -> OutgoingService<S> {
        OutgoingService {
            inner,
            policy: self.policy.clone(),
        }
    }
}

/// A client whose calls are rate limited. Created by [`OutgoingLayer`].
#[derive(Clone, Debug)]
pub struct OutgoingService<S> {
    inner: S,
    policy: Arc<LayerPolicy>,
}

/// Why a call was not made or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutgoingError<E> {
    /// The call was not made, usually because a limit denied it or it would have had to wait for
    /// too long.
    #[error("call rejected by the rate limiter: {cause}")]
    Rejected {
        /// Why the call was not made.
        #[source]
        cause: Box<RejectionCause>,
    },
    /// The call was made and failed.
    #[error(transparent)]
    Call(E),
}

impl<E> OutgoingError<E> {
    /// The decision, if a limit denied the call.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Rejected { cause } => cause.decision(),
            Self::Call(_) => None,
        }
    }
}

impl<S, R, B> Service<Request<R>> for OutgoingService<S>
where
    S: Service<Request<R>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    R: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<ResponseBody<B>>;
    type Error = OutgoingError<S::Error>;
    type Future = BoxedResponse<B, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(OutgoingError::Call)
    }

    fn call(&mut self, mut request: Request<R>) -> Self::Future {
        let mut inner = take_ready(&mut self.inner);
        let policy = self.policy.clone();

        Box::pin(async move {
            policy.monitor.count_request();
            match admit(&policy, &mut request, None).await {
                Ok(task) => RateLimitFuture::admitted(inner.call(request), task)
                    .await
                    .map_err(OutgoingError::Call),
                Err(cause) => {
                    policy.monitor.record_rejection(&cause);
                    Err(OutgoingError::Rejected { cause })
                }
            }
        })
    }
}
