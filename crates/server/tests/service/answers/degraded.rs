//! Responses while the store is unavailable, for each failure policy.

use testkit::reverse_proxy;

use super::{about, is};
use crate::harness::Tollgate;

/// A service whose store is unavailable.
pub(super) fn unavailable(policy: &str) -> Tollgate {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    Tollgate::with_config(&format!(
        r#"
version: 1
store: {{ type: redis, endpoints: ["redis://{closed}"] }}
limits:
  - {{ name: api, key: [client_ip], algorithm: fixed_window, limit: 2, window: 1h, on_store_failure: {policy} }}
"#
    ))
}

#[test]
fn degraded_allow() {
    is(
        &unavailable("allow").check(&about("/")),
        r#"
200
content-type: application/json
cache-control: no-store
ratelimit-policy: "api";q=2;w=3600
ratelimit: "api";r=2
x-ratelimit-limit: 2
x-ratelimit-remaining: 2
x-ratelimit-reset: <now> + 0
x-ratelimit-fallback: true
connection: close
content-length: <length>
date: <now>

{"allowed":true,"source":"fallback","degraded":true,"degraded_reason":"unavailable","wait_ms":0,"limits":[{"name":"api","limit":2,"remaining":2,"reset_after_ms":0,"retry_after_ms":null,"fallback":"allow"}]}
"#,
    );
}

#[test]
fn degraded_deny() {
    let service = unavailable("deny");
    is(
        &service.check(&about("/")),
        r#"
503
content-type: application/problem+json
cache-control: no-store
ratelimit-policy: "api";q=2;w=3600
ratelimit: "api";r=0;t=1
x-ratelimit-limit: 2
x-ratelimit-remaining: 0
x-ratelimit-reset: <now> + 0
retry-after: 1
x-ratelimit-fallback: true
connection: close
content-length: <length>
date: <now>

{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":"Limit \"api\" is temporarily unavailable; retry in 1 second.","violated-policies":["api"],"allowed":false,"source":"fallback","degraded":true,"degraded_reason":"unavailable","wait_ms":0,"limits":[{"name":"api","limit":2,"remaining":0,"reset_after_ms":1000,"retry_after_ms":1000,"fallback":"deny"}]}
"#,
    );
    let refund = service.post("/v1/refund", &about("/"));
    assert_eq!(
        (refund.status, refund.header("retry-after")),
        (503, Some("1"))
    );
    assert!(
        refund.text().contains(r#""code":"store-unavailable""#),
        "{}",
        refund.text()
    );
    let ready = reverse_proxy::get(service.http, "/readyz", &[]);
    assert_eq!(
        (ready.status, &*ready.text()),
        (200, r#"{"ready":true,"degraded":true}"#)
    );
}

#[test]
fn degraded_local() {
    let service = unavailable("local");
    is(
        &service.check(&about("/")),
        r#"
200
content-type: application/json
cache-control: no-store
ratelimit-policy: "api";q=2;w=3600
ratelimit: "api";r=1;t=1800
x-ratelimit-limit: 2
x-ratelimit-remaining: 1
x-ratelimit-reset: <now> + 1800
x-ratelimit-fallback: true
connection: close
content-length: <length>
date: <now>

{"allowed":true,"source":"fallback","degraded":true,"degraded_reason":"unavailable","wait_ms":0,"limits":[{"name":"api","limit":2,"remaining":1,"reset_after_ms":1800000,"retry_after_ms":null,"fallback":"local"}]}
"#,
    );
    assert_eq!(service.check(&about("/")).status, 200);
    is(
        &service.check(&about("/")),
        r#"
429
content-type: application/problem+json
cache-control: no-store
ratelimit-policy: "api";q=2;w=3600
ratelimit: "api";r=0;t=1800
x-ratelimit-limit: 2
x-ratelimit-remaining: 0
x-ratelimit-reset: <now> + 3600
retry-after: 1800
x-ratelimit-fallback: true
connection: close
content-length: <length>
date: <now>

{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Limit \"api\" exceeded; retry in 1800 seconds.","violated-policies":["api"],"allowed":false,"source":"fallback","degraded":true,"degraded_reason":"unavailable","wait_ms":0,"limits":[{"name":"api","limit":2,"remaining":0,"reset_after_ms":3600000,"retry_after_ms":1800000,"fallback":"local"}]}
"#,
    );
}
