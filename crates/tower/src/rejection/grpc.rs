//! Rejections of gRPC calls: a status in the headers, and the retry delay in its details.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tollgate::Decision;

use super::cause::RejectionCause;
use crate::request_head::RequestHead;

/// The ASCII characters that must be percent-encoded in `grpc-message`.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// A response without a body, whose headers hold the gRPC status ("trailers-only").
pub(super) fn response(head: &RequestHead<'_>, cause: &RejectionCause) -> Response<Bytes> {
    let code = code(cause);
    let message = cause.to_string();

    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();

    // The content type of the request, so that gRPC-Web clients get a gRPC-Web response.
    let content_type = head.headers().get(CONTENT_TYPE).cloned();
    headers.insert(
        CONTENT_TYPE,
        content_type.unwrap_or(HeaderValue::from_static("application/grpc")),
    );
    headers.insert("grpc-status", HeaderValue::from(code));
    if let Ok(escaped) = HeaderValue::try_from(utf8_percent_encode(&message, ESCAPED).to_string()) {
        headers.insert("grpc-message", escaped);
    }

    // Clients that retry automatically wait this many milliseconds; -1 stops them from retrying.
    let retry_after = cause.decision().and_then(Decision::retry_after);
    let pushback = retry_after.map_or(-1, |delay| {
        i64::try_from(delay.as_micros().div_ceil(1_000)).unwrap_or(-1)
    });
    headers.insert("grpc-retry-pushback-ms", HeaderValue::from(pushback));

    #[cfg(feature = "grpc")]
    if let Some(delay) = retry_after
        && let Ok(details) = HeaderValue::try_from(details::encode(code, &message, delay))
    {
        headers.insert("grpc-status-details-bin", details);
    }

    response
}

/// The gRPC status code for a cause.
fn code(cause: &RejectionCause) -> u32 {
    const INVALID_ARGUMENT: u32 = 3;
    const PERMISSION_DENIED: u32 = 7;
    const RESOURCE_EXHAUSTED: u32 = 8;
    const INTERNAL: u32 = 13;
    const UNAVAILABLE: u32 = 14;
    const UNAUTHENTICATED: u32 = 16;

    match cause.status() {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE => RESOURCE_EXHAUSTED,
        StatusCode::SERVICE_UNAVAILABLE => UNAVAILABLE,
        StatusCode::UNAUTHORIZED => UNAUTHENTICATED,
        StatusCode::FORBIDDEN => PERMISSION_DENIED,
        status if status.is_client_error() => INVALID_ARGUMENT,
        _ => INTERNAL,
    }
}

#[cfg(feature = "grpc")]
mod details {
    //! The messages `google.rpc.Status` and `google.rpc.RetryInfo`, written by hand because only
    //! these two are needed.

    use std::time::Duration;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    use prost::Message;

    /// `google.rpc.Status`.
    #[derive(Clone, PartialEq, Message)]
    struct RpcStatus {
        #[prost(uint32, tag = "1")]
        code: u32,
        #[prost(string, tag = "2")]
        message: String,
        #[prost(message, repeated, tag = "3")]
        details: Vec<prost_types::Any>,
    }

    /// `google.rpc.RetryInfo`.
    #[derive(Clone, Copy, PartialEq, Message)]
    struct RetryInfo {
        #[prost(message, optional, tag = "1")]
        retry_delay: Option<prost_types::Duration>,
    }

    /// The value of `grpc-status-details-bin`.
    pub(super) fn encode(code: u32, message: &str, retry_after: Duration) -> String {
        let retry_info = RetryInfo {
            retry_delay: prost_types::Duration::try_from(retry_after).ok(),
        };
        let retry_info = prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
            value: retry_info.encode_to_vec(),
        };

        let status = RpcStatus {
            code,
            message: message.to_owned(),
            details: vec![retry_info],
        };
        STANDARD_NO_PAD.encode(status.encode_to_vec())
    }
}
