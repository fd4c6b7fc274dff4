//! Responses to proxies.

use testkit::reverse_proxy::{self, Response};

use super::{LIMITS, is};
use crate::harness::Tollgate;

pub(super) fn ask(service: &Tollgate, path: &str, original: &str) -> Response {
    let headers = [
        ("X-Original-URI", original),
        ("X-Original-Method", "GET"),
        ("X-Forwarded-For", "203.0.113.7"),
    ];
    reverse_proxy::get(service.http, path, &headers)
}

#[test]
fn forward_auth() {
    let service = Tollgate::with_config(LIMITS);
    is(
        &ask(&service, "/v1/forward-auth?proxy=nginx", "/work/1"),
        r#"
200
cache-control: no-store
ratelimit-policy: "work";q=1;qu="concurrent-requests"
ratelimit: "work";r=0
x-ratelimit-limit: 1
x-ratelimit-remaining: 0
x-ratelimit-reset: <now> + 3600
x-ratelimit-permit: <permit>
connection: close
content-length: <length>
date: <now>
"#,
    );
    is(
        &ask(
            &service,
            "/v1/forward-auth?proxy=nginx&deny_status=403",
            "/work/1",
        ),
        r#"
403
content-type: application/problem+json
x-ratelimit-status: 429
cache-control: no-store
ratelimit-policy: "work";q=1;qu="concurrent-requests"
ratelimit: "work";r=0;t=3600
x-ratelimit-limit: 1
x-ratelimit-remaining: 0
x-ratelimit-reset: <now> + 3600
retry-after: 3600
connection: close
content-length: <length>
date: <now>

{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":403,"detail":"Limit \"work\" exceeded; retry in 3600 seconds.","violated-policies":["work"],"allowed":false,"source":"store","degraded":false,"wait_ms":0,"limits":[{"name":"work","limit":1,"remaining":0,"reset_after_ms":3600000,"retry_after_ms":3600000}]}
"#,
    );
    assert_eq!(ask(&service, "/v1/forward-auth", "/work/1").status, 429);
    assert_eq!(ask(&service, "/v1/forward-auth", "/elsewhere").status, 200);
}

const DENIAL: &str = r#"
denial:
  content_type: text/html; charset=utf-8
  body: "<h1>Slow down</h1><p>{detail} {name} {limit} {remaining} {retry_after} {status}</p>"
"#;

/// A template replaces the body of denials, and of nothing else.
#[test]
fn the_body_of_a_denial_can_be_set() {
    let service = Tollgate::with_config(&(LIMITS.to_owned() + DENIAL));
    let path = "/v1/forward-auth?proxy=nginx&deny_status=403";
    assert_eq!(ask(&service, path, "/work/1").status, 200);
    is(
        &ask(&service, path, "/work/1"),
        r#"
403
content-type: text/html; charset=utf-8
x-ratelimit-status: 429
cache-control: no-store
ratelimit-policy: "work";q=1;qu="concurrent-requests"
ratelimit: "work";r=0;t=3600
x-ratelimit-limit: 1
x-ratelimit-remaining: 0
x-ratelimit-reset: <now> + 3600
retry-after: 3600
connection: close
content-length: <length>
date: <now>

<h1>Slow down</h1><p>Limit &quot;work&quot; exceeded; retry in 3600 seconds. work 1 0 3600 403</p>
"#,
    );

    // A check is answered to a program, and a refusal is not a denial by a limit.
    let checked = service.check(&super::about("/work/1"));
    assert_eq!(
        checked.header("content-type"),
        Some("application/problem+json")
    );
    let refused = reverse_proxy::get(service.http, "/v1/forward-auth?proxy=nginx", &[]);
    assert_eq!(
        refused.header("content-type"),
        Some("application/problem+json")
    );
}
