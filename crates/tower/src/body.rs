//! The body of a response: the application's own, or that of a refusal.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::reply::Reply;
use crate::visit::Later;

pin_project! {
    /// The body of a response that has come through a [`RateLimitLayer`](crate::RateLimitLayer).
    /// Nothing of it is read ahead. Places under concurrency limits are held until it has ended or
    /// is dropped.
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
        status: StatusCode,
        later: Option<Box<Later>>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Own { text: Option<Bytes> },
        Passed { #[pin] body: B },
    }
}

impl<B> ResponseBody<B> {
    /// A body of our own.
    pub(crate) fn own(text: Bytes) -> Self {
        let text = Some(text).filter(|text| !text.is_empty());
        Self {
            kind: Kind::Own { text },
            status: StatusCode::OK,
            later: None,
        }
    }

    pub(crate) const fn passed(body: B, status: StatusCode, later: Option<Box<Later>>) -> Self {
        Self {
            kind: Kind::Passed { body },
            status,
            later,
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
        let this = self.project();
        let body = match this.kind.project() {
            KindProjection::Own { text } => {
                return Poll::Ready(text.take().map(|text| Ok(Frame::data(text))));
            }
            KindProjection::Passed { body } => body,
        };
        if let Some(later) = this.later {
            later.keep(context);
        }
        let frame = ready!(body.poll_frame(context));
        match (&frame, &mut *this.later) {
            (Some(Ok(frame)), Some(later)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    later.hear(&Reply::ended(*this.status, trailers));
                }
            }
            (Some(Err(_)) | None, later) => *later = None,
            (Some(Ok(_)), None) => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Own { text } => text.is_none(),
            Kind::Passed { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Own { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Kind::Passed { body } => body.size_hint(),
        }
    }
}

/// Without what is held, which is nobody's business.
impl<B> std::fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_own = matches!(self.kind, Kind::Own { .. });
        f.debug_struct("ResponseBody")
            .field("is_own", &is_own)
            .finish_non_exhaustive()
    }
}

/// Empty, as some layers want bodies to be when they make one up.
impl<B> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::own(Bytes::new())
    }
}
