//! Answers that go on: server-sent events as the body of a response.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Bytes;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::http::Body;

/// The body of an answer of the admin port.
#[derive(Debug)]
pub(crate) enum AdminBody {
    /// All of it is there.
    Whole(Body),
    /// More comes as it happens.
    Events(Events),
}

/// What has happened, then what happens. It ends when the other side has nothing more to say.
#[derive(Debug)]
pub(crate) struct Events {
    first: vec::IntoIter<Bytes>,
    then: mpsc::Receiver<Bytes>,
}

impl Events {
    pub(super) fn new(first: Vec<Bytes>, then: mpsc::Receiver<Bytes>) -> Self {
        Self {
            first: first.into_iter(),
            then,
        }
    }
}

/// An event of a name, as it is sent.
pub(super) fn event(name: &str, data: &impl Serialize) -> Bytes {
    // Structs of text, numbers and lists never fail to serialise, and JSON on one line has no line
    // ends.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into()
}

impl From<Body> for AdminBody {
    fn from(body: Body) -> Self {
        Self::Whole(body)
    }
}

impl HttpBody for AdminBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Events(events) => match events.first.next() {
                Some(text) => Poll::Ready(Some(Ok(Frame::data(text)))),
                None => events
                    .then
                    .poll_recv(context)
                    .map(|text| text.map(|text| Ok(Frame::data(text)))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
