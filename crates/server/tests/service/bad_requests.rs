//! Every invalid request gets an error that names the cause, and is not charged.

mod batch_rows;
mod inline_rows;
mod rows;

use serde_json::Value;
use testkit::reverse_proxy::{self, Response};

use crate::harness::Tollgate;
use crate::raw;

/// An invalid request and its error.
struct Row {
    what: &'static str,
    request: Request,
    status: u16,
    code: &'static str,
    /// A part of the detail.
    detail: &'static str,
}

enum Request {
    /// A POST with a JSON body.
    Post(&'static str, Vec<u8>),
    /// Another method, headers and body.
    Send(
        &'static str,
        &'static str,
        &'static [(&'static str, &'static str)],
        &'static [u8],
    ),
    /// Raw bytes.
    Raw(Vec<u8>),
    /// Raw bytes, after which the client closes its sending side.
    CutOff(Vec<u8>),
}

impl Request {
    fn send(&self, service: &Tollgate) -> Response {
        let json = [("content-type", "application/json")];
        match self {
            Self::Post(path, body) => reverse_proxy::send(service.http, "POST", path, &json, body),
            Self::Send(method, path, headers, body) => {
                reverse_proxy::send(service.http, method, path, headers, body)
            }
            Self::Raw(bytes) => raw::exchange(service.http, bytes, false),
            Self::CutOff(bytes) => raw::exchange(service.http, bytes, true),
        }
    }
}

const LIMITS: &str = r#"
version: 1
client_ip: { trusted_proxies: ["127.0.0.0/8"] }
hash_keys: ["header:x-api-key"]
hash_secret: sixteen bytes or more
limits:
  - { name: address, key: [client_ip], algorithm: fixed_window, limit: 100, window: 1h }
  - { name: login, match: { path: /auth/login }, key: [client_ip, email], algorithm: sliding_log, limit: 5, window: 15m }
  - { name: secret, match: { path: /secret }, key: ["header:x-api-key"], algorithm: fixed_window, limit: 9, window: 1h }
  - name: reports
    match: { path: "/reports/**" }
    key: [tenant]
    algorithm: token_bucket
    capacity: 5
    refill_rate: 1/minute
    cost: { by: pages, default: 1 }
  - { name: llm, match: { path: /llm }, key: [user], algorithm: fixed_window, limit: 9, window: 1h, cost: { tokens: { input: 1, output: 4 } } }
  - { name: work, match: { path: /work }, key: [tenant], algorithm: concurrency, limit: 2, permit_timeout: 10m }
"#;

/// The limits above, and more than may apply to one request.
fn config() -> String {
    let more = (0..17).map(|n| {
        format!("  - {{ name: many-{n}, match: {{ path: /many }}, key: [], algorithm: fixed_window, limit: 9, window: 1h }}\n")
    });
    LIMITS.to_owned() + &more.collect::<String>()
}

#[test]
fn every_invalid_request_gets_its_error() {
    let service = Tollgate::with_config(&config());
    let description: Value =
        serde_json::from_slice(&reverse_proxy::get(service.http, "/openapi.json", &[]).body)
            .expect("JSON");
    let codes = description["components"]["schemas"]["ErrorCode"]["enum"]
        .as_array()
        .expect("a list")
        .clone();
    let rows = rows::all();
    assert!(rows.len() >= 45, "{}", rows.len());
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|row| mismatch(row, &service, &codes))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {} rows:\n{}",
        wrong.len(),
        rows.len(),
        wrong.join("\n")
    );
    nothing_was_charged(&service);
}

/// What is wrong with the response; none if it is as expected.
fn mismatch(row: &Row, service: &Tollgate, codes: &[Value]) -> Option<String> {
    let answer = row.request.send(service);
    let text = answer.text();
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    let is_right = answer.status == row.status
        && answer.header("content-type") == Some("application/problem+json")
        && answer.header("cache-control") == Some("no-store")
        && (row.status == 405) == answer.header("allow").is_some()
        && body["status"] == row.status
        && body["code"] == row.code
        && codes.contains(&body["code"])
        && body["retryable"] == (row.status == 408 || row.code == "incomplete-body")
        && body["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains(row.detail) && detail.len() < 500)
        && body["title"]
            .as_str()
            .is_some_and(|title| !title.is_empty());
    let Row {
        what,
        status,
        code,
        detail,
        ..
    } = row;
    (!is_right).then(|| {
        format!(
            "{what}: expected {status} {code} {detail:?}, got {} {:?} {text}",
            answer.status, answer.headers
        )
    })
}

/// No counter that a row uses was charged.
fn nothing_was_charged(service: &Tollgate) {
    for client in ["203.0.113.7", "127.0.0.1"] {
        let asked = format!(
            r#"{{"attributes": {{"client_ip": "{client}", "email": "ann@example.com", "tenant": "acme"}},
                "limits": ["address", "login", "reports", "work", "many-0", "many-16",
                    {{"name": "chat", "key": "ann", "algorithm": "sliding_log", "limit": 5, "window": "1h"}}]}}"#
        );
        let peeked: Value =
            serde_json::from_slice(&service.post("/v1/peek", &asked).body).expect("JSON");
        let limits = peeked["limits"].as_array().expect("a list").clone();
        assert_eq!(limits.len(), 7);
        for limit in limits {
            assert_eq!(limit["remaining"], limit["limit"], "{peeked}");
        }
    }
}

#[test]
fn a_valid_request_among_invalid_ones_is_charged() {
    let service = Tollgate::with_config(LIMITS);
    let asked = r#"{"attributes": {"client_ip": "203.0.113.7"}, "limits": ["address"]}"#;
    assert_eq!(
        service.check(asked).header("x-ratelimit-remaining"),
        Some("99")
    );
    let bare = r#"[{"client_ip": "203.0.113.7"}, ["address"], 1]"#;
    assert_eq!(service.check(bare).status, 422, "a list is no question");
    assert_eq!(
        service.check(asked).header("x-ratelimit-remaining"),
        Some("98")
    );
}

#[test]
fn every_invalid_request_of_a_batch_gets_its_error() {
    let service = Tollgate::with_config(&config());
    let items: Vec<&str> = batch_rows::ITEMS.iter().map(|(item, ..)| *item).collect();
    let response = service.post(
        "/v1/batch",
        &format!(r#"{{"requests": [{}]}}"#, items.join(",")),
    );
    let body: Value = serde_json::from_slice(&response.body).expect("JSON");
    for (index, (item, status, code, detail)) in batch_rows::ITEMS.iter().enumerate() {
        let answer = &body["answers"][index];
        let found = answer["body"]["detail"].as_str().unwrap_or_default();
        assert_eq!(answer["status"], *status, "{item}: {answer}");
        assert_eq!(answer["body"]["code"], *code, "{item}: {answer}");
        assert!(found.contains(detail), "{item}: {answer}");
    }
    nothing_was_charged(&service);
}

/// HTTP/1.0 clients get an HTTP/1.0 response, after which the connection is closed.
#[test]
fn http_1_0_is_spoken() {
    let service = Tollgate::with_config(LIMITS);
    let body = r#"{"attributes": {"client_ip": "203.0.113.7"}}"#;
    let request = format!(
        "POST /v1/check HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = raw::exchange(service.http, request.as_bytes(), false);
    assert_eq!(
        (answer.status, answer.header("x-ratelimit-remaining")),
        (200, Some("99"))
    );
}

/// Such requests never reach a handler: the response is a status without a body.
#[test]
fn what_is_not_http_gets_a_status_and_the_connection_is_closed() {
    let service = Tollgate::with_config(&config());
    for (what, request, status) in rows::no_http() {
        assert_eq!(raw::bare_status(service.http, &request), status, "{what}");
    }
    nothing_was_charged(&service);
}

/// Which of the two bounds is exceeded first depends on how the bytes arrive.
#[test]
fn a_path_of_a_megabyte_is_rejected() {
    let service = Tollgate::with_config(LIMITS);
    let request = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(1 << 20));
    let status = raw::bare_status(service.http, request.as_bytes());
    assert!(matches!(status, 414 | 431), "{status}");
}

#[test]
fn a_body_that_does_not_arrive_times_out() {
    let service =
        Tollgate::with_config(&(LIMITS.to_owned() + "server: { header_timeout: 200ms }\n"));
    let head = "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{";
    let answer = raw::exchange(service.http, head.as_bytes(), false);
    assert_eq!(answer.status, 408);
    assert!(answer.text().contains(
        r#""detail":"the body did not arrive within 0.2 s","code":"body-too-slow","retryable":true"#
    ));
}
