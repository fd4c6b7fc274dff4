//! Complete responses: status, every header in order and no others, body.

mod degraded;
mod forward_auth;
mod structured;

use testkit::reverse_proxy::{self, Response};

use crate::golden::shown;
use crate::harness::Tollgate;

const LIMITS: &str = r#"
version: 1
client_ip: { trusted_proxies: ["127.0.0.0/8"] }
limits:
  - { name: api, match: { path: "/api/**" }, key: [client_ip], algorithm: fixed_window, limit: 2, window: 1h }
  - { name: watched, match: { path: /watched }, key: [client_ip], algorithm: fixed_window, limit: 1, window: 1h, shadow: true }
  - { name: queue, match: { path: /queue }, key: [client_ip], algorithm: leaky_bucket, mode: queue, capacity: 2, leak_rate: 1/h }
  - { name: work, match: { path: "/work/**" }, key: [client_ip], algorithm: concurrency, limit: 1, permit_timeout: 1h }
"#;

/// The body of a check for a path, always by the same client.
fn about(path: &str) -> String {
    format!(r#"{{"attributes": {{"client_ip": "203.0.113.7", "path": "{path}"}}}}"#)
}

fn with_cost(path: &str, cost: u64) -> String {
    format!(r#"{{"attributes": {{"client_ip": "203.0.113.7", "path": "{path}"}}, "cost": {cost}}}"#)
}

fn is(answer: &Response, expected: &str) {
    assert_eq!(shown(answer), expected.trim_start());
}

#[test]
fn allowed_and_denied() {
    let service = Tollgate::with_config(LIMITS);
    is(
        &service.check(&about("/api/1")),
        r#"
200
content-type: application/json
cache-control: no-store
ratelimit-policy: "api";q=2;w=3600
ratelimit: "api";r=1;t=3600
x-ratelimit-limit: 2
x-ratelimit-remaining: 1
x-ratelimit-reset: <now> + 3600
connection: close
content-length: <length>
date: <now>

{"allowed":true,"source":"store","degraded":false,"wait_ms":0,"limits":[{"name":"api","limit":2,"remaining":1,"reset_after_ms":3600000,"retry_after_ms":null}]}
"#,
    );
    assert_eq!(service.check(&about("/api/1")).status, 200);
    is(
        &service.check(&about("/api/1")),
        r#"
429
content-type: application/problem+json
cache-control: no-store
ratelimit-policy: "api";q=2;w=3600
ratelimit: "api";r=0;t=3600
x-ratelimit-limit: 2
x-ratelimit-remaining: 0
x-ratelimit-reset: <now> + 3600
retry-after: 3600
connection: close
content-length: <length>
date: <now>

{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Limit \"api\" exceeded; retry in 3600 seconds.","violated-policies":["api"],"allowed":false,"source":"store","degraded":false,"wait_ms":0,"limits":[{"name":"api","limit":2,"remaining":0,"reset_after_ms":3600000,"retry_after_ms":3600000}]}
"#,
    );
    is(
        &service.post("/v1/refund", &about("/api/1")),
        r#"
200
content-type: application/json
connection: close
content-length: <length>
date: <now>

{"refunded":true}
"#,
    );
    assert_eq!(
        service.check(&about("/api/1")).status,
        200,
        "refunded units can be used again"
    );
}

/// No `Retry-After`: retrying would never succeed.
#[test]
fn never() {
    let service = Tollgate::with_config(LIMITS);
    is(
        &service.check(&with_cost("/api/1", 3)),
        r#"
429
content-type: application/problem+json
cache-control: no-store
ratelimit-policy: "api";q=2;w=3600
ratelimit: "api";r=2
x-ratelimit-limit: 2
x-ratelimit-remaining: 2
x-ratelimit-reset: <now> + 0
connection: close
content-length: <length>
date: <now>

{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"The cost exceeds limit \"api\" (2); the request can never pass.","violated-policies":["api"],"allowed":false,"source":"store","degraded":false,"wait_ms":0,"limits":[{"name":"api","limit":2,"remaining":2,"reset_after_ms":0,"retry_after_ms":null,"never":true}]}
"#,
    );
}

/// Shadow limits are not shown to clients.
#[test]
fn shadow() {
    let service = Tollgate::with_config(LIMITS);
    assert_eq!(service.check(&about("/watched")).status, 200);
    is(
        &service.check(&about("/watched")),
        r#"
200
content-type: application/json
cache-control: no-store
connection: close
content-length: <length>
date: <now>

{"allowed":true,"source":"store","degraded":false,"wait_ms":0,"limits":[{"name":"watched","limit":1,"remaining":0,"reset_after_ms":3600000,"retry_after_ms":3600000,"shadow":true}]}
"#,
    );
    is(
        &service.check(&about("/elsewhere")),
        r#"
200
content-type: application/json
cache-control: no-store
connection: close
content-length: <length>
date: <now>

{"allowed":true,"source":"store","degraded":false,"wait_ms":0,"limits":[]}
"#,
    );
}

#[test]
fn waiting_in_a_queue() {
    let service = Tollgate::with_config(LIMITS);
    assert!(
        service
            .check(&about("/queue"))
            .text()
            .contains(r#""wait_ms":0,"#)
    );
    is(
        &service.check(&about("/queue")),
        r#"
200
content-type: application/json
cache-control: no-store
ratelimit-policy: "queue";q=2;w=7200
ratelimit: "queue";r=0;t=3600
x-ratelimit-limit: 2
x-ratelimit-remaining: 0
x-ratelimit-reset: <now> + 7200
connection: close
content-length: <length>
date: <now>

{"allowed":true,"source":"store","degraded":false,"wait_ms":3600000,"limits":[{"name":"queue","limit":2,"remaining":0,"reset_after_ms":7200000,"retry_after_ms":null}]}
"#,
    );
}

#[test]
fn a_permit_is_released_once() {
    let service = Tollgate::with_config(LIMITS);
    let held = service.check(&about("/work/1"));
    is(
        &held,
        r#"
200
content-type: application/json
cache-control: no-store
ratelimit-policy: "work";q=1;qu="concurrent-requests"
ratelimit: "work";r=0
x-ratelimit-limit: 1
x-ratelimit-remaining: 0
x-ratelimit-reset: <now> + 3600
connection: close
content-length: <length>
date: <now>

{"allowed":true,"source":"store","degraded":false,"wait_ms":0,"limits":[{"name":"work","limit":1,"remaining":0,"reset_after_ms":3600000,"retry_after_ms":null}],"permit":"<permit>"}
"#,
    );
    assert_eq!(service.check(&about("/work/1")).status, 429);
    let body: serde_json::Value = serde_json::from_slice(&held.body).expect("JSON");
    let lease = serde_json::json!({"permit": body["permit"]}).to_string();
    let released = |whether| {
        format!(
            "200\ncontent-type: application/json\nconnection: close\ncontent-length: <length>\ndate: <now>\n\n{{\"released\":{whether}}}\n"
        )
    };
    is(&service.post("/v1/release", &lease), &released("true"));
    is(&service.post("/v1/release", &lease), &released("false"));
    assert_eq!(service.check(&about("/work/1")).status, 200);
}

/// The header of a degraded decision cannot be switched off.
#[test]
fn headers_that_are_switched_off_are_not_sent() {
    let service = Tollgate::with_config(
        &(LIMITS.to_owned() + "headers: { ietf: false, legacy: false, retry_after: false }\n"),
    );
    is(
        &service.check(&with_cost("/work/1", 1)),
        r#"
200
content-type: application/json
cache-control: no-store
connection: close
content-length: <length>
date: <now>

{"allowed":true,"source":"store","degraded":false,"wait_ms":0,"limits":[{"name":"work","limit":1,"remaining":0,"reset_after_ms":3600000,"retry_after_ms":null}],"permit":"<permit>"}
"#,
    );
    let denied = service.check(&about("/work/1"));
    assert_eq!(
        (denied.status, denied.headers.len()),
        (429, 5),
        "{denied:?}"
    );
}

#[test]
fn health() {
    let service = Tollgate::with_config(LIMITS);
    let head = "200\ncontent-type: application/json\ncache-control: no-store\nconnection: close\ncontent-length: <length>\ndate: <now>\n";
    is(
        &reverse_proxy::get(service.http, "/healthz", &[]),
        &format!("{head}\n{{\"alive\":true}}\n"),
    );
    is(
        &reverse_proxy::get(service.http, "/readyz", &[]),
        &format!("{head}\n{{\"ready\":true,\"degraded\":false}}\n"),
    );
    let asked = reverse_proxy::send(service.http, "HEAD", "/healthz", &[], b"");
    assert_eq!(
        (
            asked.status,
            asked.header("content-length"),
            asked.body.len()
        ),
        (200, Some("14"), 0)
    );
}
