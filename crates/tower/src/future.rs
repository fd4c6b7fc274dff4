//! The way of a response back through a layer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use crate::body::ResponseBody;
use crate::visit::Visit;

/// A response on its way, or the error of the service inside.
pub(crate) type Result<B, E> = std::result::Result<Response<ResponseBody<B>>, E>;
/// A response for which something else must be waited first.
pub(crate) type Coming<B, E> = Pin<Box<dyn Future<Output = Result<B, E>> + Send>>;

pin_project! {
    /// The response of a service behind a [`RateLimitLayer`](crate::RateLimitLayer). What a request
    /// holds is given back when this is dropped.
    #[must_use = "a future does nothing until it is polled"]
    pub struct RateLimitFuture<F, B, E> {
        #[pin]
        state: State<F, B, E>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, B, E> {
        /// Refused: the response is there.
        Refused { response: Option<Box<Response<ResponseBody<B>>>> },
        /// Let through: the application works on it.
        Passing { #[pin] passing: Passing<F> },
        /// To be decided.
        Coming { coming: Coming<B, E> },
    }
}

impl<F, B, E> RateLimitFuture<F, B, E> {
    pub(crate) fn refused(response: Response<ResponseBody<B>>) -> Self {
        Self {
            state: State::Refused {
                response: Some(Box::new(response)),
            },
        }
    }

    pub(crate) const fn passing(passing: Passing<F>) -> Self {
        Self {
            state: State::Passing { passing },
        }
    }

    pub(crate) const fn coming(coming: Coming<B, E>) -> Self {
        Self {
            state: State::Coming { coming },
        }
    }
}

impl<F, B, E> Future for RateLimitFuture<F, B, E>
where
    F: Future<Output = std::result::Result<Response<B>, E>>,
{
    type Output = Result<B, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Refused { response } => Poll::Ready(Ok(*response
                .take()
                .expect("a future is not polled once it is done"))),
            StateProjection::Passing { passing } => passing.poll(context),
            StateProjection::Coming { coming } => coming.as_mut().poll(context),
        }
    }
}

impl<F, B, E> fmt::Debug for RateLimitFuture<F, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitFuture").finish_non_exhaustive()
    }
}

pin_project! {
    /// A request that was let through; without a visit when there is nothing to remember. What is
    /// seldom or large is boxed, because futures are moved many times on their way through the
    /// layers of others.
    pub(crate) struct Passing<F> {
        #[pin]
        inner: F,
        visit: Option<Box<Visit>>,
    }
}

impl<F> Passing<F> {
    pub(crate) const fn new(inner: F, visit: Option<Box<Visit>>) -> Self {
        Self { inner, visit }
    }
}

impl<F, B, E> Future for Passing<F>
where
    F: Future<Output = std::result::Result<Response<B>, E>>,
{
    type Output = Result<B, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(visit) = this.visit {
            visit.keep(context);
        }
        let result = ready!(this.inner.poll(context));
        Poll::Ready(match (result, this.visit.take()) {
            (Ok(response), Some(visit)) => Ok(visit.leave(response)),
            (Ok(response), None) => {
                let status = response.status();
                Ok(response.map(|body| ResponseBody::passed(body, status, None)))
            }
            (Err(error), visit) => {
                if let Some(visit) = visit {
                    visit.fail();
                }
                Err(error)
            }
        })
    }
}
