//! Complete responses: status, every header in order and no others, body.

mod degraded;
mod forward_auth;
mod peek;
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

const LANGUAGE_MODEL: &str = r"
limits:
  - { name: requests, key: [client_ip], algorithm: fixed_window, limit: 2, window: 1h }
  - { name: in-flight, key: [client_ip], algorithm: concurrency, limit: 9, permit_timeout: 1h }
  - { name: tokens, key: [client_ip], algorithm: fixed_window, limit: 500, window: 1h, unit: input_tokens, cost: { by: tokens } }
";

fn conversation(tokens: u64) -> String {
    format!(r#"{{"attributes": {{"client_ip": "203.0.113.7", "tokens": "{tokens}"}}}}"#)
}

#[test]
fn profile_openai() {
    let service =
        Tollgate::with_config(&(LANGUAGE_MODEL.to_owned() + "headers: { profiles: [openai] }\n"));
    is(
        &service.check(&conversation(400)),
        r#"
200
content-type: application/json
cache-control: no-store
x-ratelimit-limit-requests: 2
x-ratelimit-remaining-requests: 1
x-ratelimit-reset-requests: 1h0m0s
x-ratelimit-limit-tokens: 500
x-ratelimit-remaining-tokens: 100
x-ratelimit-reset-tokens: 1h0m0s
connection: close
content-length: <length>
date: <now>

{"allowed":true,"source":"store","degraded":false,"wait_ms":0,"limits":[{"name":"requests","limit":2,"remaining":1,"reset_after_ms":3600000,"retry_after_ms":null},{"name":"in-flight","limit":9,"remaining":8,"reset_after_ms":3600000,"retry_after_ms":null},{"name":"tokens","limit":500,"remaining":100,"reset_after_ms":3600000,"retry_after_ms":null}],"permit":"<permit>"}
"#,
    );

    let denied = service.check(&conversation(101));
    assert_eq!(denied.status, 429);
    assert_eq!(denied.header("x-ratelimit-remaining-tokens"), Some("100"));
    assert_eq!(denied.header("retry-after"), Some("3600"));
}

/// The reset times are those of the server's clock, so only their form is compared.
#[test]
fn profile_anthropic() {
    let service = Tollgate::with_config(
        &(LANGUAGE_MODEL.to_owned()
            + "headers: { profiles: [anthropic, ietf], retry_after: false }\n"),
    );
    let response = service.check(&conversation(500));
    let names: Vec<_> = response
        .headers
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let expected = [
        "content-type",
        "cache-control",
        "ratelimit-policy",
        "ratelimit",
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
        "anthropic-ratelimit-tokens-limit",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
        "anthropic-ratelimit-input-tokens-limit",
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
        "connection",
        "content-length",
        "date",
    ];
    assert_eq!(names, expected);

    let policy = r#""requests";q=2;w=3600, "in-flight";q=9;qu="concurrent-requests", "tokens";q=500;w=3600;qu="input-tokens""#;
    assert_eq!(response.header("ratelimit-policy"), Some(policy));
    let reset = response
        .header("anthropic-ratelimit-tokens-reset")
        .unwrap_or_default();
    assert!(
        reset.starts_with("20") && reset.len() == 20 && reset.ends_with('Z'),
        "{reset}"
    );
    assert_eq!(
        response.header("anthropic-ratelimit-tokens-remaining"),
        Some("0")
    );

    let denied = service.check(&conversation(1));
    assert_eq!((denied.status, denied.header("retry-after")), (429, None));
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
