//! The request of Traefik's forwardAuth middleware, byte for byte. Traefik itself is not run here.

use testkit::reverse_proxy::{self, Response};

use crate::deploy::read;
use crate::harness::Tollgate;

const LIMITS: &str = r#"
version: 1
client_ip: { trusted_proxies: ["127.0.0.0/8"] }
limits:
  - { name: login, match: { method: POST, path: /auth/login, host: shop.example }, key: [client_ip], algorithm: fixed_window, limit: 2, window: 1h }
"#;

/// The forward-auth request for a client's `POST /auth/login`. Traefik copies the client's headers
/// and overwrites them with its own.
fn ask(service: &Tollgate, client: &str, more: &[(&str, &str)]) -> Response {
    let own = [
        ("Accept-Encoding", "gzip"),
        ("User-Agent", "curl/8.14.1"),
        ("X-Forwarded-For", client),
        ("X-Forwarded-Host", "shop.example"),
        ("X-Forwarded-Method", "POST"),
        ("X-Forwarded-Port", "80"),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Server", "traefik-1"),
        ("X-Forwarded-Uri", "/auth//%6cogin?next=/"),
        ("X-Real-Ip", client),
    ];
    let file = read("traefik/dynamic.yml");
    let (_, address) = file
        .split_once("http://tollgate:8080")
        .expect("the address of the service");
    let (path, _) = address.split_once('"').expect("it ends");
    reverse_proxy::get(service.http, path, &[&own[..], more].concat())
}

#[test]
fn the_original_request_is_limited() {
    let service = Tollgate::with_config(LIMITS);
    for left in ["1", "0"] {
        let answer = ask(&service, "203.0.113.7", &[]);
        assert_eq!(
            (answer.status, answer.header("x-ratelimit-remaining")),
            (200, Some(left)),
            "{}",
            answer.text()
        );
        assert!(answer.body.is_empty());
    }
    let refused = ask(&service, "203.0.113.7", &[]);
    assert_eq!(refused.status, 429);
    assert!(
        refused.header("retry-after").is_some()
            && refused.text().contains(r#""violated-policies":["login"]"#)
    );
    assert_eq!(
        ask(&service, "203.0.113.8", &[]).status,
        200,
        "another client"
    );
}

#[test]
fn forged_headers_are_ignored() {
    let service = Tollgate::with_config(LIMITS);
    for _ in 0..2 {
        assert_eq!(ask(&service, "203.0.113.7", &[]).status, 200);
    }
    let lies = [
        ("X-Original-URI", "/free"),
        ("X-Original-Method", "GET"),
        ("X-Original-Host", "other.example"),
        ("Forwarded", "for=198.51.100.1"),
    ];
    for lie in lies {
        assert_eq!(ask(&service, "203.0.113.7", &[lie]).status, 429, "{lie:?}");
    }
    // A duplicate of a header that Traefik sets can only come from the client, so it is rejected.
    let twice = ask(&service, "203.0.113.7", &[("X-Forwarded-Uri", "/free")]);
    assert_eq!(twice.status, 400, "{}", twice.text());
    assert!(
        twice
            .text()
            .contains(r#""code":"invalid-original-request""#)
    );
}
