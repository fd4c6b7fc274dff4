//! The middleware on a server's side: request -> decision -> response.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::answer::Cause;
use crate::body::ResponseBody;
use crate::future::{Passing, RateLimitFuture};
use crate::head::Head;
use crate::plan::{Admission, AtOnce, Plan};

/// A service whose requests are limited. See [`RateLimitLayer`](crate::RateLimitLayer).
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    plan: Arc<Plan>,
}

impl<S> RateLimit<S> {
    pub(crate) const fn new(inner: S, plan: Arc<Plan>) -> Self {
        Self { inner, plan }
    }

    /// The service inside.
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
        let charge = match self.plan.admit_at_once(&mut request) {
            AtOnce::Known(Admission::Passes(visit)) => {
                return RateLimitFuture::passing(Passing::new(self.inner.call(request), visit));
            }
            AtOnce::Known(Admission::Refused(cause)) => {
                return RateLimitFuture::refused(refuse(&self.plan, &request, &cause));
            }
            AtOnce::Open(charge) => charge,
        };
        // The service that is ready goes with the request; a clone of it gets ready for the next.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let plan = self.plan.clone();
        RateLimitFuture::coming(Box::pin(async move {
            let visit = match plan.admit(&mut request, charge).await {
                Admission::Passes(visit) => visit,
                Admission::Refused(cause) => return Ok(refuse(&plan, &request, &cause)),
            };
            Passing::new(inner.call(request), visit).await
        }))
    }
}

fn refuse<R, B>(plan: &Plan, request: &Request<R>, cause: &Cause) -> Response<ResponseBody<B>> {
    plan.watch.refuses(cause);
    plan.refuse(Head::of(request), cause).map(ResponseBody::own)
}
