//! How responses of the admin port are written.

use hyper::body::Bytes;
use hyper::{Response, StatusCode};
use serde::Serialize;
use tollgate::Micros;

use crate::http::{Body, json};

/// `value` as JSON.
pub(super) fn to_json(value: &impl Serialize) -> Vec<u8> {
    // Structs of text, numbers and lists never fail to serialise.
    serde_json::to_vec(value).unwrap_or_default()
}

/// A 200 response with `body` as JSON.
pub(super) fn json_ok(body: &impl Serialize) -> Response<Body> {
    json(StatusCode::OK, to_json(body))
}

/// A server-sent event with `data` as JSON.
pub(super) fn event(name: &str, data: &impl Serialize) -> Bytes {
    // Compact JSON contains no line break, which would end the `data` field.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// A time or a duration in whole milliseconds, rounded down.
pub(super) const fn millis(time: Micros) -> u64 {
    time.get() / 1_000
}
