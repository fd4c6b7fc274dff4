//! Invalid batches, and the errors that they must get. Their requests are tested by `batch.rs`.

use super::rows::{post, row};
use super::{Request, Row};

const CHECK: &str = r#"{"op": "check", "attributes": {"client_ip": "203.0.113.7"}}"#;

fn batch(body: impl AsRef<[u8]>) -> Request {
    post("/v1/batch", body)
}

#[rustfmt::skip]
pub(super) fn all() -> Vec<Row> {
    let many = format!(r#"{{"requests": [{}]}}"#, [CHECK; 257].join(","));
    let huge = format!(r#"{{"requests": [{}]}}"#, vec!["1"; 30_000].join(","));
    vec![
        row("no batch", batch(""), 400, "bad-json", "EOF"),
        row("a batch as a list", batch(format!("[{CHECK}]")), 422, "invalid-body", "expected an object"),
        row("a batch of nothing", batch("{}"), 422, "invalid-body", "missing field `requests`"),
        row("an empty batch", batch(r#"{"requests": []}"#), 422, "bad-batch", "`requests` has 0 requests; it must have 1 to 256"),
        row("257 requests", batch(many), 422, "bad-batch", "`requests` has 257 requests"),
        row("30,000 requests", batch(huge), 422, "bad-batch", "`requests` has 30000 requests"),
        row("requests as an object", batch(format!(r#"{{"requests": {CHECK}}}"#)), 422, "invalid-body", "expected a sequence"),
        row("requests that are null", batch(r#"{"requests": null}"#), 422, "invalid-body", "expected a sequence"),
        row("a batch with more members", batch(format!(r#"{{"requests": [{CHECK}], "cost": 1}}"#)), 422, "invalid-body", "unknown field `cost`"),
        row("requests twice", batch(format!(r#"{{"requests": [{CHECK}], "requests": [{CHECK}]}}"#)), 422, "invalid-body", "duplicate field `requests`"),
        row("a batch cut short", batch(format!(r#"{{"requests": [{CHECK}"#)), 400, "bad-json", "EOF"),
        row("a batch by GET", Request::Send("GET", "/v1/batch", &[], b""), 405, "method-not-allowed", "it must be POST"),
        row("an operation of a batch alone", post("/v1/check", CHECK), 422, "invalid-body", "unknown field `op`"),
    ]
}

/// Requests of a batch that is valid otherwise: the error of each, and its code.
#[rustfmt::skip]
pub(super) const ITEMS: &[(&str, u64, &str, &str)] = &[
    (r#"{"op": "batch", "requests": []}"#, 422, "unknown-operation", "a batch cannot contain a batch; expected one of check, peek"),
    (r#"{"op": "spend"}"#, 422, "unknown-operation", "unknown `op` \"spend\""),
    (r#"{"op": ""}"#, 422, "unknown-operation", "unknown `op` \"\""),
    (r#"{"op": null}"#, 422, "unknown-operation", "missing field `op`"),
    (r#"{"attributes": {"client_ip": "203.0.113.7"}}"#, 422, "unknown-operation", "missing field `op`"),
    (r#"{"op": 7}"#, 422, "invalid-body", "expected a string"),
    (r#"{"op": "check", "op": "peek"}"#, 422, "invalid-body", "duplicate field `op`"),
    (r#"{"op": "check", "ops": 1}"#, 422, "invalid-body", "unknown field `ops`"),
    (r#"[{"op": "check"}]"#, 422, "invalid-body", "expected an object"),
    ("null", 422, "invalid-body", "expected an object"),
    (r#"{"op": "check", "cost": -1}"#, 422, "invalid-body", "integer `-1`"),
    (r#"{"op": "release", "permit": "x"}"#, 422, "bad-permit", "invalid permit"),
    (r#"{"op": "refund"}"#, 422, "missing-attribute", "`client_ip`"),
];
