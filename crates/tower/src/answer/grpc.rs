//! Refusals in the words of gRPC: a status in the headers, and in its details when to come back.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{Cause, Refusal};

/// What a message may not hold as it is.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// The answer of a call that ends with its headers.
pub(super) fn response(refusal: &Refusal<'_>) -> Response<Bytes> {
    let code = code(refusal.cause());
    let message = refusal.cause().to_string();
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    // The kind that was asked for, so that gRPC over the web is answered in kind.
    let asked = refusal.head().headers().get(CONTENT_TYPE).cloned();
    headers.insert(
        CONTENT_TYPE,
        asked.unwrap_or(HeaderValue::from_static("application/grpc")),
    );
    headers.insert("grpc-status", HeaderValue::from(code));
    if let Ok(escaped) = HeaderValue::try_from(utf8_percent_encode(&message, ESCAPED).to_string()) {
        headers.insert("grpc-message", escaped);
    }
    let retry_after = refusal.decision().and_then(tollgate::Decision::retry_after);
    // Clients that retry by themselves wait so long, and not at all where there is no use.
    let pushback = retry_after.map_or(-1, |length| {
        i64::try_from(length.as_micros().div_ceil(1_000)).unwrap_or(-1)
    });
    headers.insert("grpc-retry-pushback-ms", HeaderValue::from(pushback));
    #[cfg(feature = "grpc")]
    if let Some(length) = retry_after
        && let Ok(details) = HeaderValue::try_from(details::encode(code, &message, length))
    {
        headers.insert("grpc-status-details-bin", details);
    }
    response
}

fn code(cause: &Cause) -> u32 {
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
    //! `google.rpc.Status` with a `google.rpc.RetryInfo`, as much of them as is needed.

    use std::time::Duration;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    struct Status {
        #[prost(uint32, tag = "1")]
        code: u32,
        #[prost(string, tag = "2")]
        message: String,
        #[prost(message, repeated, tag = "3")]
        details: Vec<prost_types::Any>,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    struct RetryInfo {
        #[prost(message, optional, tag = "1")]
        retry_delay: Option<prost_types::Duration>,
    }

    pub(super) fn encode(code: u32, message: &str, retry_after: Duration) -> String {
        let info = RetryInfo {
            retry_delay: prost_types::Duration::try_from(retry_after).ok(),
        };
        let info = prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
            value: info.encode_to_vec(),
        };
        let status = Status {
            code,
            message: message.to_owned(),
            details: vec![info],
        };
        STANDARD_NO_PAD.encode(status.encode_to_vec())
    }
}
