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

pin_project! {
    /// The body of a response that has passed a [`RateLimitLayer`](crate::RateLimitLayer). It is
    /// streamed without buffering. Permits of concurrency limits are held until the body has ended
    /// or is dropped.
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
        // The HTTP status of the response, which trailers are judged together with.
        status: StatusCode,
        // `None` if nothing remains to be done at the end of the body.
        settlement: Option<Box<PendingSettlement>>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Rejection { #[pin] body: Full<Bytes> },
        Application { #[pin] body: B },
    }
}

impl<B> ResponseBody<B> {
    /// The body of a rejection.
    pub(crate) fn from_rejection(text: Bytes) -> Self {
        let body = Full::new(text);
        Self {
            kind: Kind::Rejection { body },
            status: StatusCode::OK,
            settlement: None,
        }
    }

    /// The application's response, and what remains to be done at the end of its body.
    pub(crate) fn wrap(
        response: Response<B>,
        settlement: Option<Box<PendingSettlement>>,
    ) -> Response<Self> {
        let status = response.status();
        response.map(|body| Self {
            kind: Kind::Application { body },
            status,
            settlement,
        })
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let body = match this.kind.project() {
            KindProjection::Rejection { body } => {
                let frame = body.poll_frame(context);
                return frame.map_err(|never| match never {});
            }
            KindProjection::Application { body } => body,
        };

        if let Some(settlement) = this.settlement {
            settlement.renew_permit(context);
        }
        let frame = ready!(body.poll_frame(context));

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

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Rejection { body } => body.is_end_stream(),
            Kind::Application { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Rejection { body } => body.size_hint(),
            Kind::Application { body } => body.size_hint(),
        }
    }
}

impl<B> std::fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_rejection = matches!(self.kind, Kind::Rejection { .. });
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
