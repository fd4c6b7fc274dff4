//! Request bodies, read completely within bounds.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::{Body as _, Incoming};

use tollgate_gate::api::ApiError;

use crate::listen::{ClientConnection, IncompleteRequest};

/// The bounds of a request body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    pub(crate) bytes_max: usize,
    /// How long the whole body may take to arrive.
    pub(crate) timeout: Duration,
}

/// Reads the whole body, whatever its content type: many clients send JSON as something else by
/// default. Web pages, which may send some types without asking, are turned away by their origin.
pub(crate) async fn read(
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
    limits: BodyLimits,
) -> Result<Bytes, ApiError> {
    if request.body().size_hint().lower() > limits.bytes_max as u64 {
        return Err(ApiError::body_too_large(limits.bytes_max));
    }

    let first = frame_data(early_frame(request.body_mut()).await)?;
    if first.len() <= limits.bytes_max && request.body().is_end_stream() {
        return Ok(first);
    }
    Box::pin(read_late(request, connection, first, limits)).await
}

/// The first frame if there is one and it is ready soon. Most bodies arrive together with their head
/// and are ready at the second poll at the latest, so that they need neither a timer nor a
/// reservation of memory. The second poll comes for certain: the connection's periodic tick causes
/// it even if no more data arrives.
async fn early_frame(body: &mut Incoming) -> BodyFrame {
    let mut was_polled = false;
    poll_fn(|context| match Pin::new(&mut *body).poll_frame(context) {
        Poll::Ready(frame) => Poll::Ready(frame),
        Poll::Pending if was_polled => Poll::Ready(None),
        Poll::Pending => {
            was_polled = true;
            Poll::Pending
        }
    })
    .await
}

/// Reads the rest of a body that has not arrived completely.
async fn read_late(
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
    first: Bytes,
    limits: BodyLimits,
) -> Result<Bytes, ApiError> {
    let incomplete = IncompleteRequest::new(connection.clone(), request.headers());
    let rest = read_rest(request.body_mut(), incomplete, first, limits.bytes_max);
    let whole = tokio::time::timeout(limits.timeout, rest).await;
    whole.map_err(|_| ApiError::body_too_slow(limits.timeout.as_secs_f64()))?
}

async fn read_rest(
    body: &mut Incoming,
    mut incomplete: IncompleteRequest,
    first: Bytes,
    bytes_max: usize,
) -> Result<Bytes, ApiError> {
    let mut whole = BytesMut::new();
    let mut next = Some(first);

    while let Some(data) = next {
        if whole.len() + data.len() > bytes_max {
            return Err(ApiError::body_too_large(bytes_max));
        }
        if !incomplete.try_grow(data.len()) {
            return Err(ApiError::overloaded());
        }
        whole.extend_from_slice(&data);

        next = match body.frame().await {
            None => None,
            frame => Some(frame_data(frame)?),
        };
    }
    Ok(whole.freeze())
}

type BodyFrame = Option<Result<hyper::body::Frame<Bytes>, hyper::Error>>;

/// The bytes of a frame; none without a frame, and of trailers.
fn frame_data(frame: BodyFrame) -> Result<Bytes, ApiError> {
    let frame = frame.transpose().map_err(|_| ApiError::incomplete_body())?;
    let data = frame.and_then(|frame| frame.into_data().ok());
    Ok(data.unwrap_or_default())
}
