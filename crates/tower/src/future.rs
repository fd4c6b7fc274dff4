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
        // The application handles the request, and the layer has nothing to do with its response.
        Untouched { #[pin] inner: F },
        // The application handles the request. The task is taken when the response arrives.
        Admitted { #[pin] inner: F, task: Option<ResponseTask> },
        // The request is rejected, or not decided yet.
        Boxed { future: BoxedResponse<B, E> },
    }
}

impl<F, B, E> RateLimitFuture<F, B, E> {
    /// The application handles the request. Without a task, the future is as cheap to move and to
    /// drop as the application's.
    pub(crate) fn admitted(inner: F, task: Option<ResponseTask>) -> Self {
        let state = match task {
            None => State::Untouched { inner },
            task => State::Admitted { inner, task },
        };
        Self { state }
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
        let (inner, task) = match self.project().state.project() {
            StateProjection::Untouched { inner } => {
                return inner.poll(context).map_ok(ResponseBody::wrap);
            }
            StateProjection::Admitted { inner, task } => (inner, task),
            StateProjection::Boxed { future } => return future.as_mut().poll(context),
        };

        if let Some(task) = task {
            task.renew_permit(context);
        }
        let result = ready!(inner.poll(context));
        Poll::Ready(match task.take() {
            Some(task) => task.finish(result),
            None => result.map(ResponseBody::wrap),
        })
    }
}

impl<F, B, E> fmt::Debug for RateLimitFuture<F, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitFuture").finish_non_exhaustive()
    }
}

/// Takes the service that is ready, and leaves a clone that becomes ready for the next request.
pub(crate) fn take_ready<S: Clone>(service: &mut S) -> S {
    let clone = service.clone();
    std::mem::replace(service, clone)
}
