//! The body of the event stream.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::channel::Channel;
use hyper::body::{Body, Bytes, Frame};

use crate::listen::{ClientConnection, InFlightRequest};

/// The events of a viewer. Its connection counts as in use until the stream ends.
#[derive(Debug)]
pub(crate) struct EventStream {
    events: Channel<Bytes>,
    _in_flight: InFlightRequest<Arc<ClientConnection>>,
}

impl EventStream {
    pub(super) fn new(events: Channel<Bytes>, connection: &Arc<ClientConnection>) -> Self {
        Self {
            events,
            _in_flight: InFlightRequest::new(connection.clone()),
        }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.events).poll_frame(context)
    }
}
