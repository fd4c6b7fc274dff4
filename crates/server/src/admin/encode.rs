//! How responses of the admin port are written.

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

/// A time or a duration in whole milliseconds, rounded down.
pub(super) const fn millis(time: Micros) -> u64 {
    time.get() / 1_000
}
