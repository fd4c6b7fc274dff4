//! Invalid requests to act: each gets an error that names the cause, and changes nothing.

use serde_json::Value;
use testkit::reverse_proxy;

use crate::harness::Tollgate;

const CONFIG: &str = r#"
hash_keys: ["header:x-api-key"]
hash_secret: sixteen bytes or more
tiers: { free: { limit: 5 }, pro: { limit: 50 } }
limits:
  - { name: api, key: [client_ip], algorithm: sliding_window, limit: 5, window: 1h }
  - { name: login, key: [client_ip, email], algorithm: sliding_log, limit: 5, window: 1h }
  - { name: bucket, key: [user], algorithm: token_bucket, capacity: 5, refill_rate: 1/h }
  - { name: plan, key: [user], algorithm: fixed_window, window: 1h, tier: { by: plan, default: free } }
  - { name: secret, key: ["header:x-api-key"], algorithm: fixed_window, limit: 5, window: 1h }
  - { name: all, key: [], algorithm: fixed_window, limit: 5, window: 1h }
"#;

/// What follows the limit and the key in a valid body.
const REST: &str = r#""for": "1h", "reason": "r", "by": "b""#;
const KEY: &str = r#""limit": "api", "key": {"client_ip": "203.0.113.7"}"#;

/// The path after `/admin/`, the members of the body, the status, the code and a part of the detail.
type Row = (&'static str, &'static str, u16, &'static str, &'static str);

const ROWS: [Row; 48] = [
    ("blocks", "", 400, "bad-json", "not valid JSON"),
    ("blocks", "[]", 422, "invalid-body", "an object"),
    ("blocks", "{", 400, "bad-json", "not valid JSON"),
    ("blocks", "{} {}", 400, "bad-json", "not valid JSON"),
    (
        "blocks",
        r#"{"limits": "api"}"#,
        422,
        "invalid-body",
        "unknown field `limits`",
    ),
    (
        "blocks",
        "{REST}",
        422,
        "missing-member",
        "missing member `limit`",
    ),
    (
        "blocks",
        r#"{"limit": "api", REST}"#,
        422,
        "missing-member",
        "missing member `key`",
    ),
    (
        "blocks",
        r#"{"limit": "", "key": {}, REST}"#,
        422,
        "unknown-limit",
        "unknown limit",
    ),
    (
        "blocks",
        r#"{"limit": "nope", "key": {}, REST}"#,
        422,
        "unknown-limit",
        "expected one of api",
    ),
    (
        "blocks",
        r#"{"limit": 5, "key": {}, REST}"#,
        422,
        "invalid-body",
        "expected a string",
    ),
    (
        "blocks",
        r#"{"limit": "api", "key": {}, REST}"#,
        422,
        "missing-attribute",
        "`client_ip`",
    ),
    (
        "blocks",
        r#"{"limit": "api", "key": "ann", REST}"#,
        422,
        "invalid-body",
        "attributes",
    ),
    (
        "blocks",
        r#"{"limit": "api", "key": {"client_ip": "nine"}, REST}"#,
        422,
        "bad-address",
        "client_ip",
    ),
    (
        "blocks",
        r#"{"limit": "api", "key": {"client_ip": ["1.2.3.4"]}, REST}"#,
        422,
        "invalid-body",
        "attribute",
    ),
    (
        "blocks",
        r#"{"limit": "login", "key": {"client_ip": "203.0.113.7"}, REST}"#,
        422,
        "missing-attribute",
        "`email`",
    ),
    (
        "blocks",
        r#"{"limit": "api", "key": {"client_ip": "203.0.113.7", "email": "a"}, REST}"#,
        422,
        "foreign-attribute",
        "which is client_ip",
    ),
    (
        "blocks",
        r#"{"limit": "all", "key": {"client_ip": "203.0.113.7"}, REST}"#,
        422,
        "foreign-attribute",
        "one counter",
    ),
    (
        "blocks",
        r#"{"limit": "api", "key": {"client_ip": "1.2.3.4", "client_ip": "1.2.3.5"}, REST}"#,
        422,
        "invalid-body",
        "duplicate attribute",
    ),
    (
        "blocks",
        r#"{KEY, "network": "203.0.113.0/24", REST}"#,
        422,
        "key-and-network",
        "one of them",
    ),
    (
        "blocks",
        r#"{"limit": "api", "network": "203.0.113.7/24", REST}"#,
        422,
        "bad-network",
        "did you mean 203.0.113.0/24",
    ),
    (
        "blocks",
        r#"{"limit": "api", "network": "everyone", REST}"#,
        422,
        "bad-network",
        "10.0.0.0/8",
    ),
    (
        "blocks",
        r#"{"limit": "bucket", "network": "203.0.113.0/24", REST}"#,
        422,
        "no-address",
        "cannot tell networks",
    ),
    (
        "blocks",
        r#"{KEY, "reason": "r", "by": "b"}"#,
        422,
        "missing-member",
        "missing member `for`",
    ),
    (
        "blocks",
        r#"{KEY, "for": "forever", "reason": "r", "by": "b"}"#,
        422,
        "bad-for",
        "between 1s and 90d",
    ),
    (
        "blocks",
        r#"{KEY, "for": "0s", "reason": "r", "by": "b"}"#,
        422,
        "bad-for",
        "\"0s\"",
    ),
    (
        "blocks",
        r#"{KEY, "for": "91d", "reason": "r", "by": "b"}"#,
        422,
        "bad-for",
        "\"91d\"",
    ),
    (
        "blocks",
        r#"{KEY, "for": "-1h", "reason": "r", "by": "b"}"#,
        422,
        "bad-for",
        "\"-1h\"",
    ),
    (
        "blocks",
        r#"{KEY, "for": 60, "reason": "r", "by": "b"}"#,
        422,
        "invalid-body",
        "expected a string",
    ),
    (
        "blocks",
        r#"{KEY, "for": "1h", "by": "b"}"#,
        422,
        "missing-member",
        "missing member `reason`",
    ),
    (
        "blocks",
        r#"{KEY, "for": "1h", "reason": "  ", "by": "b"}"#,
        422,
        "missing-member",
        "missing member `reason`",
    ),
    (
        "blocks",
        r#"{KEY, "for": "1h", "reason": "r"}"#,
        422,
        "missing-member",
        "missing member `by`",
    ),
    (
        "blocks",
        r#"{KEY, "for": "1h", "reason": "a\nb", "by": "b"}"#,
        422,
        "bad-text",
        "control characters",
    ),
    (
        "blocks",
        r#"{KEY, "for": "1h", "reason": "r", "by": "LONG"}"#,
        422,
        "too-long",
        "at most 64",
    ),
    (
        "blocks",
        r#"{KEY, "for": "1h", "reason": "LONG", "by": "b"}"#,
        422,
        "too-long",
        "at most 200",
    ),
    (
        "blocks",
        r#"{KEY, "status": 500, REST}"#,
        422,
        "bad-status",
        "expected 403 or 429",
    ),
    (
        "blocks",
        r#"{KEY, "status": "403", REST}"#,
        422,
        "invalid-body",
        "u16",
    ),
    (
        "blocks",
        r#"{KEY, "multiply": 2, REST}"#,
        422,
        "foreign-member",
        "`multiply` has no effect",
    ),
    (
        "exemptions",
        r#"{KEY, "status": 403, REST}"#,
        422,
        "foreign-member",
        "`status` has no effect",
    ),
    (
        "overrides",
        "{KEY, REST}",
        422,
        "bad-override",
        "expected one of `multiply`",
    ),
    (
        "overrides",
        r#"{KEY, "multiply": 0, REST}"#,
        422,
        "bad-override",
        "invalid `multiply` 0",
    ),
    (
        "overrides",
        r#"{KEY, "multiply": 2, "tier": "pro", REST}"#,
        422,
        "bad-override",
        "expected one of",
    ),
    (
        "overrides",
        r#"{KEY, "quota": {}, REST}"#,
        422,
        "bad-override",
        "expected one of",
    ),
    (
        "overrides",
        r#"{KEY, "quota": {"window": "1s"}, REST}"#,
        422,
        "bad-override",
        "takes `limit`",
    ),
    (
        "overrides",
        r#"{KEY, "quota": {"limit": -1}, REST}"#,
        422,
        "bad-override",
        "invalid",
    ),
    (
        "overrides",
        r#"{KEY, "tier": "pro", REST}"#,
        422,
        "bad-override",
        "has no tiers",
    ),
    (
        "overrides",
        r#"{"limit": "plan", "key": {"user": "a"}, "tier": "gold", REST}"#,
        422,
        "bad-override",
        "has free, pro",
    ),
    (
        "shadows",
        r#"{"limit": "api", REST}"#,
        422,
        "missing-member",
        "missing member `shadow`",
    ),
    (
        "shadows",
        r#"{KEY, "shadow": true, REST}"#,
        422,
        "foreign-member",
        "`key` has no effect",
    ),
];

#[test]
fn every_invalid_request_to_act_is_refused_with_its_cause() {
    let service = Tollgate::with_config(CONFIG);
    for (plural, body, status, code, detail) in ROWS {
        let body = body.replace("REST", REST).replace("KEY", KEY);
        let body = body.replace("LONG", &"x".repeat(201));
        let path = format!("/admin/{plural}");
        let response = reverse_proxy::send(service.admin, "POST", &path, &[], body.as_bytes());
        let text = response.text();
        assert_eq!(response.status, status, "{plural} {body}: {text}");

        let problem: Value = serde_json::from_str(&text).expect("a problem");
        assert_eq!(problem["code"], code, "{plural} {body}: {text}");
        let found = problem["detail"].as_str().expect("a detail");
        assert!(found.contains(detail), "{plural} {body}: {found}");
    }

    for (method, path, status, code) in [
        (
            "DELETE",
            "/admin/blocks/block-0000000000000000",
            404,
            "unknown-action",
        ),
        ("DELETE", "/admin/blocks/", 404, "unknown-action"),
        ("DELETE", "/admin/blocks", 405, "method-not-allowed"),
        ("PUT", "/admin/overrides", 405, "method-not-allowed"),
        ("GET", "/admin/blocks/x", 405, "method-not-allowed"),
        ("GET", "/admin/blocks?key=a", 400, "unknown-parameter"),
        ("POST", "/admin/blocks?limit=a", 400, "unknown-parameter"),
        ("POST", "/admin/blocks?wait=", 400, "invalid-parameter"),
        ("POST", "/admin/shadows?wait=11s", 400, "invalid-parameter"),
        (
            "POST",
            "/admin/blocks?wait=1s&wait=1s",
            400,
            "unknown-parameter",
        ),
        (
            "DELETE",
            "/admin/blocks/x?wait=soon",
            400,
            "invalid-parameter",
        ),
        ("GET", "/admin/bans", 404, "not-found"),
    ] {
        let response = reverse_proxy::send(service.admin, method, path, &[], b"");
        assert_eq!(response.status, status, "{method} {path}");
        assert!(response.text().contains(code), "{}", response.text());
    }

    let huge = format!("{{\"reason\": \"{}\"}}", "x".repeat(20_000));
    let response =
        reverse_proxy::send(service.admin, "POST", "/admin/blocks", &[], huge.as_bytes());
    assert_eq!(response.status, 413, "{}", response.text());
    for plural in ["blocks", "exemptions", "overrides", "shadows"] {
        let path = format!("/admin/{plural}");
        let list = reverse_proxy::get(service.admin, &path, &[]).text();
        assert_eq!(list, format!("{{\"{plural}\":[]}}"), "nothing was changed");
    }
}
