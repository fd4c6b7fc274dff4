//! The middleware on a client's side: calls wait for their turn, or fail before they are made.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tollgate::Decision;
use tower_layer::Layer;
use tower_service::Service;

use crate::answer::Cause;
use crate::body::ResponseBody;
use crate::future::Passing;
use crate::plan::{Admission, Plan};

/// Limits the calls that a client makes. Made by
/// [`RateLimitLayer::outgoing`](crate::RateLimitLayer::outgoing).
#[derive(Clone, Debug)]
pub struct OutgoingLayer {
    pub(crate) plan: Arc<Plan>,
}

impl<S> Layer<S> for OutgoingLayer {
    type Service = Outgoing<S>;

    fn layer(&self, inner: S) -> Outgoing<S> {
        Outgoing {
            inner,
            plan: self.plan.clone(),
        }
    }
}

/// A client whose calls are limited. See [`OutgoingLayer`].
#[derive(Clone, Debug)]
pub struct Outgoing<S> {
    inner: S,
    plan: Arc<Plan>,
}

/// Why a call was not made, or did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutgoingError<E> {
    /// A limit has no room for the call, or none before the time that the call may wait.
    #[error("the call was not made: {cause}")]
    Limited {
        /// Why.
        cause: Box<Cause>,
    },
    /// The call was made and failed.
    #[error(transparent)]
    Call(E),
}

impl<E> OutgoingError<E> {
    /// The decision, when a limit refused the call.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Limited { cause } => match &**cause {
                Cause::Limited(decision) => Some(decision),
                _ => None,
            },
            Self::Call(_) => None,
        }
    }
}

type Calling<B, E> =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody<B>>, OutgoingError<E>>> + Send>>;

impl<S, R, B> Service<Request<R>> for Outgoing<S>
where
    S: Service<Request<R>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    R: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<ResponseBody<B>>;
    type Error = OutgoingError<S::Error>;
    type Future = Calling<B, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(OutgoingError::Call)
    }

    fn call(&mut self, mut request: Request<R>) -> Self::Future {
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let plan = self.plan.clone();
        Box::pin(async move {
            plan.watch.sees();
            let visit = match plan.admit(&mut request, None).await {
                Admission::Passes(visit) => visit.map(|visit| Box::new(visit.silent())),
                Admission::Refused(cause) => {
                    plan.watch.refuses(&cause);
                    return Err(OutgoingError::Limited { cause });
                }
            };
            Passing::new(inner.call(request), visit)
                .await
                .map_err(OutgoingError::Call)
        })
    }
}
