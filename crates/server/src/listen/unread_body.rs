//! What happens to a request body that the front did not read.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, EXPECT, HeaderValue};
use hyper::{Request, Response, StatusCode, Version};

use super::client_connection::ClientConnection;

/// The most bytes of an unread body that are read to keep the connection.
const DISCARDED_MAX: u64 = 128 << 10;
/// How long reading them may take.
const DISCARD_TIMEOUT: Duration = Duration::from_millis(500);

/// Reads the rest of a request's body, or announces the end of the connection if that would take
/// too long. Otherwise the client would send its next request on a connection that is about to be
/// closed.
pub(crate) async fn discard_unread<B>(
    request: &mut Request<Incoming>,
    mut response: Response<B>,
    connection: &ClientConnection,
) -> Response<B> {
    if request.body().is_end_stream() {
        return response;
    }

    // HTTP/2 cancels the stream instead. Boxed, to keep the future of other requests small.
    let status = response.status();
    if request.version() != Version::HTTP_2 && !Box::pin(discard(request, status, connection)).await
    {
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Reads and discards the rest of the body. False if it is too long or too slow.
async fn discard(
    request: &mut Request<Incoming>,
    status: StatusCode,
    connection: &ClientConnection,
) -> bool {
    let _discarding = connection.start_discarding();

    // Reading would invite a client that waits for `100 Continue` to send the body, and would only
    // delay the response to a body that is late already.
    let is_waiting = request.headers().contains_key(EXPECT);
    let body = request.body_mut();
    if is_waiting
        || status == StatusCode::REQUEST_TIMEOUT
        || body.size_hint().lower() > DISCARDED_MAX
    {
        return false;
    }

    let rest = async {
        let mut bytes_left = DISCARDED_MAX;
        while let Some(frame) = body.frame().await {
            let bytes = frame.ok()?.data_ref().map_or(0, |data| data.len() as u64);
            bytes_left = bytes_left.checked_sub(bytes)?;
        }
        Some(())
    };

    let discarded = tokio::time::timeout(DISCARD_TIMEOUT, rest).await;
    matches!(discarded, Ok(Some(())))
}
