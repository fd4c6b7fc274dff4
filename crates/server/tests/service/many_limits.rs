//! A request that meets many limits is decided like any other. It used to be an error, for which
//! Envoy lets a request pass.

use testkit::reverse_proxy;

use crate::harness::Tollgate;

/// Twelve limits by address, and five that a client can add with a header.
pub(crate) fn limits() -> String {
    let limit = |name: String, key: &str, limit: u32| {
        format!(
            "  - {{ name: {name}, key: [\"{key}\"], optional: true, algorithm: fixed_window, limit: {limit}, window: 1h }}\n"
        )
    };
    let by_address = (0..12).map(|n| limit(format!("address-{n}"), "client_ip", 100 - n));
    let by_header = (0..5).map(|n| limit(format!("key-{n}"), "header:x-api-key", 3));
    let trusted = "version: 1\nclient_ip: { trusted_proxies: [\"127.0.0.0/8\"] }\nlimits:\n";
    trusted.to_owned() + &by_address.chain(by_header).collect::<String>()
}

#[test]
fn over_http() {
    let service = Tollgate::with_config(&limits());
    let check = || {
        let attributes = r#"{"client_ip": "203.0.113.7", "header:x-api-key": "k-1"}"#;
        service.check(&format!(r#"{{"attributes": {attributes}}}"#))
    };
    let answers: Vec<u16> = (0..4).map(|_| check().status).collect();
    assert_eq!(answers, [200, 200, 200, 429]);
}

#[test]
fn over_forward_auth() {
    let service = Tollgate::with_config(&limits());
    let ask = || {
        let headers = [
            ("X-Original-URI", "/"),
            ("X-Forwarded-For", "203.0.113.7"),
            ("X-Api-Key", "k-1"),
        ];
        reverse_proxy::get(service.http, "/v1/forward-auth?proxy=nginx", &headers)
    };
    let answers: Vec<u16> = (0..4).map(|_| ask().status).collect();
    assert_eq!(answers, [200, 200, 200, 429]);
}

/// A file with as many limits as a file may have, all of which apply. The head of the response must
/// not grow with them: a proxy takes a head that is too long for an outage.
#[test]
fn a_thousand_limits_are_decided_with_a_short_head() {
    let limit = |n: u32| {
        format!(
            "  - {{ name: l{n}, key: [client_ip], algorithm: fixed_window, limit: 1, window: 1h }}\n"
        )
    };
    let limits: String = (0..1_000).map(limit).collect();
    let service = Tollgate::with_config(&format!("version: 1\nlimits:\n{limits}"));
    let ask = || {
        reverse_proxy::get(
            service.http,
            "/v1/forward-auth?proxy=nginx",
            &[("X-Original-URI", "/")],
        )
    };

    let first = ask();
    assert_eq!((first.status, ask().status), (200, 429));
    let head: usize = first
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    assert!(head < 8 << 10, "{head} bytes");
}
