//! What Traefik asks, byte for byte as its forwardAuth middleware sends it: Traefik itself is not
//! run here.

use testkit::reverse_proxy::{self, Response};

use crate::deploy::read;
use crate::harness::Tollgate;

const LIMITS: &str = r#"
version: 1
client_ip: { trusted_proxies: ["127.0.0.0/8"] }
limits:
  - { name: login, match: { method: POST, path: /auth/login, host: shop.example }, key: [client_ip], algorithm: fixed_window, limit: 2, window: 1h }
"#;

/// The question about `POST /auth/login` of a client. Traefik copies the client's headers and sets
/// its own over them.
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
fn the_request_that_traefik_describes_is_limited() {
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
fn what_a_client_adds_is_not_believed() {
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
    // A second line of what Traefik sets would have to come from the client: better no answer than
    // the wrong one.
    let twice = ask(&service, "203.0.113.7", &[("X-Forwarded-Uri", "/free")]);
    assert_eq!(twice.status, 400, "{}", twice.text());
    assert!(twice.text().contains(r#""code":"bad-description""#));
}
