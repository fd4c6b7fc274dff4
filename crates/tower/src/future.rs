//! The response futures of rate limited services.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use crate::admission::ResponseTask;
use crate::response_body::{ResponseBody, ServiceResult};

/// A response that does not come from the inner service right away.
pub(crate) type BoxedResponse<B, E> = Pin<Box<dyn Future<Output = ServiceResult<B, E>> + Send>>;

pin_project! {
    /// The response future of a service behind a [`RateLimitLayer`](crate::RateLimitLayer).
    /// Dropping it releases the permit or the queue position of the request.
    #[must_use = "a future does nothing until it is polled"]
    pub struct RateLimitFuture<F, B, E> {
        #[pin]
        state: State<F, B, E>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, B, E> {
        // The application handles the request.
        Admitted { #[pin] future: AdmittedFuture<F> },
        // The request is rejected, or not decided yet.
        Boxed { future: BoxedResponse<B, E> },
    }
}

impl<F, B, E> RateLimitFuture<F, B, E> {
    pub(crate) const fn admitted(future: AdmittedFuture<F>) -> Self {
        Self {
            state: State::Admitted { future },
        }
    }

    pub(crate) const fn boxed(future: BoxedResponse<B, E>) -> Self {
        Self {
            state: State::Boxed { future },
        }
    }
}

impl<F, B, E> Future for RateLimitFuture<F, B, E>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = ServiceResult<B, E>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Admitted { future } => future.poll(context),
            StateProjection::Boxed { future } => future.as_mut().poll(context),
        }
    }
}

impl<F, B, E> fmt::Debug for RateLimitFuture<F, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitFuture").finish_non_exhaustive()
    }
}

pin_project! {
    /// The response future of an admitted request.
    pub(crate) struct AdmittedFuture<F> {
        #[pin]
        inner: F,
        // `None` if the layer has nothing to do with the response.
        task: Option<ResponseTask>,
    }
}

impl<F> AdmittedFuture<F> {
    pub(crate) const fn new(inner: F, task: Option<ResponseTask>) -> Self {
        Self { inner, task }
    }
}

impl<F, B, E> Future for AdmittedFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = ServiceResult<B, E>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(task) = this.task else {
            return this.inner.poll(context).map_ok(ResponseBody::wrap);
        };

        task.renew_permit(context);
        let result = ready!(this.inner.poll(context));
        Poll::Ready(match this.task.take() {
            Some(task) => task.finish(result),
            None => result.map(ResponseBody::wrap),
        })
    }
}

/// Takes the service that is ready, and leaves a clone that becomes ready for the next request.
pub(crate) fn take_ready<S: Clone>(service: &mut S) -> S {
    let clone = service.clone();
    std::mem::replace(service, clone)
}
