//! The body of a request, whose bytes count while the message is incomplete.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::Request;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tollgate_envoy::tonic::Status;

use super::error::overloaded;
use crate::listen::{ClientConnection, IncompleteRequest};

/// A request body that reserves memory for what is read of it before its end.
#[derive(Debug)]
pub(super) struct ReceivedBody {
    body: Incoming,
    incomplete: IncompleteRequest,
}

impl ReceivedBody {
    /// A request with such a body.
    pub(super) fn wrap(
        request: Request<Incoming>,
        connection: &Arc<ClientConnection>,
    ) -> Request<Self> {
        let incomplete = IncompleteRequest::new(connection.clone(), request.headers());
        request.map(|body| Self { body, incomplete })
    }
}

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);

        let bytes = match &frame {
            Poll::Ready(Some(Ok(frame))) => frame.data_ref().map_or(0, Bytes::len),
            Poll::Pending => 0,
            Poll::Ready(_) => return frame.map_err(into_status),
        };
        if !self.body.is_end_stream() && !self.incomplete.try_grow(bytes) {
            return Poll::Ready(Some(Err(overloaded())));
        }
        frame.map_err(into_status)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn into_status(error: hyper::Error) -> Status {
    Status::from_error(error.into())
}
