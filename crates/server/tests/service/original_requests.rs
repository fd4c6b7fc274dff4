//! What a proxy passes on of its client's request: every reading of it is counted.

use testkit::reverse_proxy::Response;

use crate::harness::Tollgate;
use crate::raw;
use crate::spoofing::keys;

const LIMITS: &str = r#"
version: 1
client_ip: { trusted_proxies: ["127.0.0.0/8"] }
limits:
  - { name: pages, match: { path: "/caf%C3%A9/**" }, key: [], algorithm: fixed_window, limit: 2, window: 1h }
  - { name: user, match: { path: /user }, key: ["lower(header:x-user) | client_ip"], algorithm: fixed_window, limit: 1, window: 1h }
  - { name: pair, match: { path: /pair }, key: ["query:a", "query:b"], algorithm: fixed_window, limit: 1, window: 1h }
  - { name: keyed, match: { path: /keyed }, key: ["header:x-key"], algorithm: fixed_window, limit: 9, window: 1h }
"#;

/// The request with which nginx describes another one.
fn nginx(uri: &[u8], lines: &[u8]) -> Vec<u8> {
    let start = b"GET /v1/forward-auth?proxy=nginx&deny_status=403 HTTP/1.1\r\nHost: t\r\n\
                  X-Original-Method: GET\r\nX-Forwarded-For: 203.0.113.7\r\nX-Original-URI: ";
    [start, uri, b"\r\n", lines, b"\r\n\r\n"].concat()
}

fn traefik(path: &str, lines: &[u8]) -> Vec<u8> {
    let start = format!(
        "GET /v1/forward-auth?proxy=traefik HTTP/1.1\r\nHost: t\r\nX-Forwarded-Method: GET\r\n\
         X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Uri: {path}\r\n"
    );
    [start.as_bytes(), lines, b"\r\n\r\n"].concat()
}

/// What `X-RateLimit-Status` says of a denial, else the status.
fn status(answer: &Response) -> &str {
    let original = answer.header("x-ratelimit-status");
    original.unwrap_or(if answer.status == 200 { "200" } else { "?" })
}

#[test]
fn every_spelling_of_a_key_is_counted() {
    let service = Tollgate::with_config(keys::LIMITS);
    let fresh = keys::fresh_counters(service.http, traefik);
    assert!(fresh.is_empty(), "{fresh:#?}");
}

/// gunicorn takes a part of the path from these, if the proxy passes them on.
#[test]
fn a_header_that_changes_the_path_is_refused() {
    let service = Tollgate::with_config(keys::LIMITS);
    for line in [&b"SCRIPT_NAME: /x"[..], b"path_info: /session"] {
        let answer = raw::exchange(service.http, &traefik("/x/session", line), false);
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains("some servers take the path from it"));
    }
}

/// CGI and WSGI applications cannot tell `X_Api_Key` from `X-Api-Key`.
#[test]
fn an_underscore_in_a_header_is_a_dash() {
    let service = Tollgate::with_config(keys::LIMITS);
    let status = |lines: &[u8]| raw::exchange(service.http, &traefik("/api", lines), false).status;
    assert_eq!(status(b"X-Api-Key: k-1"), 200);
    assert_eq!(status(b"X_Api-Key: k-1"), 429);
    assert_eq!(status(b"X_Api_Key: k-1\r\nX-Api-Key: 1"), 429);
}

#[test]
fn raw_bytes_in_a_path_are_counted() {
    let service = Tollgate::with_config(LIMITS);
    let ask = |uri: &[u8]| raw::exchange(service.http, &nginx(uri, b"X-A: b"), false);
    assert_eq!(status(&ask(b"/caf\xc3\xa9/a")), "200");
    assert_eq!(status(&ask(b"/caf%C3%A9/b?x=\xff")), "200");
    assert_eq!(status(&ask(b"/caf\xc3\xa9/c")), "429");
    assert_eq!(status(&ask(b"/\xff\xfe")), "200", "no limit applies");
}

#[test]
fn many_header_lines_are_counted() {
    let service = Tollgate::with_config(LIMITS);
    let lines: Vec<String> = (0..240).map(|n| format!("X-{n}: 1")).collect();
    let request = nginx(b"/user", lines.join("\r\n").as_bytes());
    assert_eq!(status(&raw::exchange(service.http, &request, false)), "200");
    assert_eq!(status(&raw::exchange(service.http, &request, false)), "429");
}

#[test]
fn values_are_normalised_as_the_file_says() {
    let service = Tollgate::with_config(LIMITS);
    let ask = |lines: &[u8]| raw::exchange(service.http, &nginx(b"/user", lines), false);
    assert_eq!(status(&ask(b"X-User: Ann")), "200");
    assert_eq!(status(&ask(b"X-User: ANN")), "429");
    // Both lines are the same value after normalising, so there is one key.
    assert_eq!(status(&ask(b"X-User: BOB\r\nX-User: bob")), "200");
    assert_eq!(status(&ask(b"X-User: bob")), "429");
    assert_eq!(status(&ask(b"X-Other: 1")), "200", "counted by address");
}

/// A denied request charges none of its keys, an allowed one all of them.
#[test]
fn a_request_with_several_values_is_charged_under_all_combinations() {
    let service = Tollgate::with_config(LIMITS);
    let ask = |query: &str| {
        let uri = format!("/pair?{query}");
        let answer = raw::exchange(service.http, &nginx(uri.as_bytes(), b"X-A: b"), false);
        status(&answer).to_owned()
    };
    assert_eq!(ask("a=1&a=2&b=1&b=2"), "200");
    for used in ["a=1&b=1", "a=1&b=2", "a=2&b=1", "a=2&b=2"] {
        assert_eq!(ask(used), "429", "{used}");
    }
    assert_eq!(ask("a=3&a=1&b=1"), "429");
    assert_eq!(ask("a=3&b=1"), "200", "not charged by the denied request");
}

/// A proxy could take any other status for a failure of the service, and let the request pass.
#[test]
fn what_cannot_be_counted_is_denied() {
    let service = Tollgate::with_config(LIMITS);
    let ask = |uri: &str, lines: &[u8]| {
        let answer = raw::exchange(service.http, &nginx(uri.as_bytes(), lines), false);
        assert_eq!(answer.status, 403, "{}", answer.text());
        (status(&answer).to_owned(), answer.text())
    };
    let many: Vec<String> = (0..9).map(|n| format!("X-Key: {n}")).collect();
    let long = [b"X-Key: ".to_vec(), vec![b'x'; 2_000]].concat();
    let pairs: Vec<String> = (0..5).map(|n| format!("a={n}&b={n}")).collect();

    for (uri, lines, code, detail) in [
        (
            "/keyed",
            many.join("\r\n").into_bytes(),
            "too-many-values",
            "`header:x-key`",
        ),
        ("/keyed", long, "bad-key", "hash long parts"),
        (
            "/keyed",
            b"X-A: b".to_vec(),
            "missing-attribute",
            "`header:x-key`",
        ),
        (
            &format!("/pair?{}", pairs.join("&")),
            b"X-A: b".to_vec(),
            "too-many-values",
            "\\\"pair\\\"",
        ),
    ] {
        let (status, text) = ask(uri, &lines);
        assert_eq!(status, "422", "{text}");
        assert!(text.contains(code) && text.contains(detail), "{text}");
    }
}
