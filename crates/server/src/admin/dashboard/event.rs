//! Server-sent events.

use hyper::body::Bytes;
use serde::Serialize;

/// Encodes an event with this name and `data` as JSON.
pub(super) fn encode(name: &str, data: &impl Serialize) -> Bytes {
    // Structs of text, numbers and lists never fail to serialise. Compact JSON contains no line
    // break, which would end the `data` field.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into()
}
