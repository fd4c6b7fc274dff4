//! The response body: the application's, or that of a rejection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use pin_project_lite::pin_project;

use crate::response::ResponseHead;
use crate::settlement::PendingSettlement;

/// The result of a rate limited service: a response, or the error of the inner service.
pub(crate) type ServiceResult<B, E> = Result<Response<ResponseBody<B>>, E>;

pin_project! {
    /// The body of a response that has passed a [`RateLimitLayer`](crate::RateLimitLayer). It is
    /// streamed without buffering. Permits of concurrency limits are held until the body has ended
    /// or is dropped.
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    // Everything but the usual case is behind one pointer, so that a response is not larger than
    // that of the application: outer layers move it many times.
    #[project = KindProjection]
    enum Kind<B> {
        // The application's body; nothing remains to be done at its end.
        Application { #[pin] body: B },
        Boxed { body: Pin<Box<BoxedBody<B>>> },
    }
}

pin_project! {
    #[project = BoxedProjection]
    enum BoxedBody<B> {
        Rejection { #[pin] body: Full<Bytes> },
        // The application's body; the settlement ends with it.
        Settled { #[pin] body: SettledBody<B> },
    }
}

pin_project! {
    struct SettledBody<B> {
        #[pin]
        body: B,
        // The HTTP status of the response, which trailers are judged together with.
        status: StatusCode,
        // `None` once the body has ended.
        settlement: Option<Box<PendingSettlement>>,
    }
}

impl<B> ResponseBody<B> {
    /// The body of a rejection.
    pub(crate) fn from_rejection(text: Bytes) -> Self {
        let body = Full::new(text);
        Self::boxed(BoxedBody::Rejection { body })
    }

    /// The application's response, of whose body nothing remains to be done at its end.
    #[inline]
    pub(crate) fn wrap(response: Response<B>) -> Response<Self> {
        response.map(|body| Self {
            kind: Kind::Application { body },
        })
    }

    /// The application's response, and what remains to be done at the end of its body.
    pub(crate) fn wrap_settled(
        response: Response<B>,
        settlement: Box<PendingSettlement>,
    ) -> Response<Self> {
        let status = response.status();
        response.map(|body| {
            let body = SettledBody {
                body,
                status,
                settlement: Some(settlement),
            };
            Self::boxed(BoxedBody::Settled { body })
        })
    }

    fn boxed(body: BoxedBody<B>) -> Self {
        let body = Box::pin(body);
        Self {
            kind: Kind::Boxed { body },
        }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let boxed = match self.project().kind.project() {
            KindProjection::Application { body } => return body.poll_frame(context),
            KindProjection::Boxed { body } => body.as_mut(),
        };
        match boxed.project() {
            BoxedProjection::Rejection { body } => {
                let frame = body.poll_frame(context);
                frame.map_err(|never| match never {})
            }
            BoxedProjection::Settled { body } => body.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Application { body } => body.is_end_stream(),
            Kind::Boxed { body } => match &**body {
                BoxedBody::Rejection { body } => body.is_end_stream(),
                BoxedBody::Settled { body } => body.body.is_end_stream(),
            },
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Application { body } => body.size_hint(),
            Kind::Boxed { body } => match &**body {
                BoxedBody::Rejection { body } => body.size_hint(),
                BoxedBody::Settled { body } => body.body.size_hint(),
            },
        }
    }
}

impl<B: Body<Data = Bytes>> SettledBody<B> {
    /// The next frame. Renews the permit meanwhile, and settles when trailers arrive or the body
    /// ends.
    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if let Some(settlement) = this.settlement {
            settlement.renew_permit(context);
        }
        let frame = ready!(this.body.poll_frame(context));

        match (&frame, &mut *this.settlement) {
            (Some(Ok(frame)), Some(settlement)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    settlement.settle(&ResponseHead::from_trailers(*this.status, trailers));
                }
            }
            // The body has ended: dropping the settlement releases the permit.
            (Some(Err(_)) | None, settlement) => *settlement = None,
            (Some(Ok(_)), None) => {}
        }
        Poll::Ready(frame)
    }
}

impl<B> std::fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_rejection = match &self.kind {
            Kind::Application { .. } => false,
            Kind::Boxed { body } => matches!(**body, BoxedBody::Rejection { .. }),
        };
        f.debug_struct("ResponseBody")
            .field("is_rejection", &is_rejection)
            .finish_non_exhaustive()
    }
}

/// An empty body. Some layers, such as those that reject requests themselves, need one.
impl<B> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::from_rejection(Bytes::new())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn a_body_without_settlement_is_not_larger_than_the_applications() {
        type Application = Pin<Box<dyn Body<Data = Bytes, Error = Infallible> + Send>>;
        assert_eq!(
            size_of::<ResponseBody<Application>>(),
            size_of::<Application>()
        );
    }
}
