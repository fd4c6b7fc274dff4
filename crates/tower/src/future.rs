//! The response futures of rate limited services.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use crate::admitted::AdmittedRequest;
use crate::response_body::ResponseBody;

/// The result of a rate limited service: a response, or the error of the inner service.
pub(crate) type ServiceResult<B, E> = Result<Response<ResponseBody<B>>, E>;
/// The response to a request that could not be decided without waiting.
pub(crate) type PendingResponse<B, E> = Pin<Box<dyn Future<Output = ServiceResult<B, E>> + Send>>;

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
        // The request is rejected; `None` once the response has been returned.
        Rejected { response: Option<Box<Response<ResponseBody<B>>>> },
        // The application handles the request.
        Admitted { #[pin] future: AdmittedFuture<F> },
        // The request is not decided yet.
        Pending { future: PendingResponse<B, E> },
    }
}

impl<F, B, E> RateLimitFuture<F, B, E> {
    pub(crate) fn rejected(response: Response<ResponseBody<B>>) -> Self {
        Self {
            state: State::Rejected {
                response: Some(Box::new(response)),
            },
        }
    }

    pub(crate) const fn admitted(future: AdmittedFuture<F>) -> Self {
        Self {
            state: State::Admitted { future },
        }
    }

    pub(crate) const fn pending(future: PendingResponse<B, E>) -> Self {
        Self {
            state: State::Pending { future },
        }
    }
}

impl<F, B, E> Future for RateLimitFuture<F, B, E>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = ServiceResult<B, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Rejected { response } => {
                let response = response.take();
                Poll::Ready(Ok(*response.expect("future polled after completion")))
            }
            StateProjection::Admitted { future } => future.poll(context),
            StateProjection::Pending { future } => future.as_mut().poll(context),
        }
    }
}

impl<F, B, E> fmt::Debug for RateLimitFuture<F, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitFuture").finish_non_exhaustive()
    }
}

pin_project! {
    /// The response future of an admitted request. Large and rare values are boxed, because outer
    /// layers move the future many times.
    pub(crate) struct AdmittedFuture<F> {
        #[pin]
        inner: F,
        // `None` if the layer has nothing to do with the response.
        admitted: Option<Box<AdmittedRequest>>,
    }
}

impl<F> AdmittedFuture<F> {
    pub(crate) const fn new(inner: F, admitted: Option<Box<AdmittedRequest>>) -> Self {
        Self { inner, admitted }
    }
}

impl<F, B, E> Future for AdmittedFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = ServiceResult<B, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(admitted) = this.admitted {
            admitted.renew_permit(context);
        }

        let result = ready!(this.inner.poll(context));

        Poll::Ready(match (result, this.admitted.take()) {
            (Ok(response), Some(admitted)) => Ok(admitted.into_response(response)),
            (Ok(response), None) => {
                let status = response.status();
                Ok(response.map(|body| ResponseBody::from_application(body, status, None)))
            }
            (Err(error), admitted) => {
                if let Some(admitted) = admitted {
                    admitted.fail();
                }
                Err(error)
            }
        })
    }
}
