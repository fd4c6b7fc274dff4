//! Server-sent events as a response body.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Bytes;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::http::Body;

/// The body of a response of the admin port.
#[derive(Debug)]
pub(crate) enum AdminBody {
    /// A complete body.
    Full(Body),
    /// A stream of events.
    Events(EventStream),
}

/// The backlog of events, then live ones. The stream ends when the hub drops its sender.
#[derive(Debug)]
pub(crate) struct EventStream {
    backlog: vec::IntoIter<Bytes>,
    live: mpsc::Receiver<Bytes>,
}

impl EventStream {
    pub(super) fn new(backlog: Vec<Bytes>, live: mpsc::Receiver<Bytes>) -> Self {
        Self {
            backlog: backlog.into_iter(),
            live,
        }
    }
}

/// Encodes an event with this name and `data` as JSON.
pub(super) fn encode(name: &str, data: &impl Serialize) -> Bytes {
    // Structs of text, numbers and lists never fail to serialise. Compact JSON contains no line
    // break, which would end the `data` field.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into()
}

impl From<Body> for AdminBody {
    fn from(body: Body) -> Self {
        Self::Full(body)
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
            Self::Full(body) => Pin::new(body).poll_frame(context),
            Self::Events(events) => match events.backlog.next() {
                Some(event) => Poll::Ready(Some(Ok(Frame::data(event)))),
                None => events
                    .live
                    .poll_recv(context)
                    .map(|event| event.map(|event| Ok(Frame::data(event)))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(body) => body.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(body) => body.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
