//! A real Envoy in front of an upstream, with the configurations from `deploy/`.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

use testkit::reverse_proxy::{self, Proxy, Response, Upstream};
use testkit::wait;
use tokio::net::TcpSocket;

use crate::deploy;
use crate::harness::{PATIENCE, Tollgate};
use crate::many_limits;

pub(crate) const RATELIMIT: &str = include_str!("../../../../deploy/envoy/ratelimit.yaml");
const EXT_AUTHZ: &str = include_str!("../../../../deploy/envoy/ext_authz.yaml");
pub(crate) const LIMITS: &str = include_str!("../../../../deploy/envoy/tollgate.yaml");
pub(crate) const SECRET: (&str, &str) = ("TOLLGATE_HASH_SECRET", "only-a-test-uses-this");

fn tollgate(arguments: &[&str]) -> Tollgate {
    // Fewer attempts than the file allows, so that tests reach the limit soon.
    let limits = replaced(LIMITS, "limit: 50\n", "limit: 5\n");
    Tollgate::with(&limits, arguments, &[SECRET])
}

/// Replaces a part of a shipped file, which must be there.
pub(crate) fn replaced(text: &str, shipped: &str, tests: &str) -> String {
    assert!(text.contains(shipped), "{shipped}");
    text.replace(shipped, tests)
}

/// Envoy with a shipped configuration, on free ports and with a timeout that suits a busy machine.
fn envoy(shipped: &str, upstream: &Upstream, tollgate: SocketAddr) -> Proxy {
    Proxy::envoy(deploy::patient(&deploy::envoy(shipped)))
        .set("app", upstream.addr().port())
        .set("tollgate", tollgate.port())
        .start()
}

pub(crate) fn rate_limited(shipped: &str, upstream: &Upstream, tollgate: SocketAddr) -> Proxy {
    envoy(shipped, upstream, tollgate)
}

fn authorised(upstream: &Upstream, tollgate: SocketAddr) -> Proxy {
    envoy(EXT_AUTHZ, upstream, tollgate)
}

fn login(envoy: &Proxy, headers: &[(&str, &str)]) -> Response {
    reverse_proxy::send(envoy.addr(), "POST", "/auth/login", headers, b"")
}

/// The whole response to a request from this address.
fn from(source: [u8; 4], to: SocketAddr, request: &[u8]) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a runtime");
    let stream: TcpStream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .bind((IpAddr::V4(Ipv4Addr::from(source)), 0).into())
            .expect("all of 127/8 is this machine");
        socket
            .connect(to)
            .await
            .expect("Envoy listens")
            .into_std()
            .expect("a stream")
    });
    stream.set_nonblocking(false).expect("a stream that waits");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    let mut stream = stream;
    stream.write_all(request).expect("Envoy reads");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("a response");
    String::from_utf8_lossy(&response).into_owned()
}

fn is_limited(response: &Response) {
    assert_eq!(response.status, 429, "{response:?}");
    let body = response.text();
    assert!(
        body.contains("#quota-exceeded")
            && body.contains(r#""violated-policies":["login-address"]"#),
        "{body}"
    );
    assert_eq!(
        response.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let wait: u64 = response
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("seconds");
    assert!((1..=900).contains(&wait), "{wait}");
}

/// The client and the upstream are told that a request passed without a decision.
fn is_marked(response: &Response) {
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("x-ratelimit-unchecked"), Some("true"));
    let seen = response.text();
    assert!(seen.contains("x-ratelimit-unchecked: true\n"), "{seen}");
    assert!(!seen.contains("unchecked: false"), "{seen}");
}

#[test]
fn allowed_requests_reach_the_upstream_and_denied_ones_get_a_reason() {
    let (upstream, service) = (Upstream::start(), tollgate(&[]));
    let envoy = rate_limited(RATELIMIT, &upstream, service.grpc);
    for attempt in 1..=5 {
        // The address is the connection's, whatever a client claims.
        let claim = format!("198.51.100.{attempt}");
        let passed = login(&envoy, &[("x-forwarded-for", &claim)]);
        assert_eq!(passed.status, 200, "{passed:?}\n{}", envoy.log());
        assert!(
            passed.text().starts_with("POST /auth/login"),
            "{}",
            passed.text()
        );
        let left = [
            ("per-address", 600 - attempt),
            ("login-address", 5 - attempt),
        ];
        let told = left.map(|(name, left)| format!(r#""{name}";r={left};t="#));
        let found = passed.header("ratelimit").expect("it was counted");
        assert!(told.iter().all(|member| found.contains(member)), "{found}");
        assert_eq!(passed.header("x-ratelimit-limit"), Some("5"));
        assert_eq!(
            passed.header("content-type"),
            Some("text/plain"),
            "the upstream's own header"
        );
        assert_eq!(passed.header("cache-control"), None);
    }
    is_limited(&login(&envoy, &[]));
    is_limited(&login(&envoy, &[("x-forwarded-for", "198.51.100.99")]));
    assert_eq!(upstream.answered(), 5);
    assert_eq!(reverse_proxy::get(envoy.addr(), "/", &[]).status, 200);
}

#[test]
fn every_spelling_of_a_path_is_limited() {
    let (upstream, service) = (Upstream::start(), tollgate(&[]));
    let envoy = rate_limited(RATELIMIT, &upstream, service.grpc);
    let spellings = [
        "/auth/login",
        "/auth/login?x=1",
        "//auth//login/",
        "/auth/%6Cogin",
        "/a/../auth/login",
    ];
    for path in spellings {
        assert_eq!(
            reverse_proxy::send(envoy.addr(), "POST", path, &[], b"").status,
            200
        );
    }
    for path in spellings {
        is_limited(&reverse_proxy::send(envoy.addr(), "POST", path, &[], b""));
    }
}

/// Envoy forwards values that are not text, and lets a request pass if its check is an error.
#[test]
fn values_that_are_not_text_do_not_bypass_the_limit() {
    let (upstream, service) = (Upstream::start(), tollgate(&[]));
    let envoy = rate_limited(RATELIMIT, &upstream, service.grpc);
    let request =
        b"GET /v1/a HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nX-Api-Key: \xff\xfe\r\n\r\n";
    let response = from([127, 0, 0, 1], envoy.addr(), request).to_ascii_lowercase();
    assert!(response.contains(r#""api-key";r=99"#), "{response}");

    let mut long = b"GET /v1/a HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nX-Api-Key: ".to_vec();
    long.extend(std::iter::repeat_n(b'x', 8_000));
    long.extend(b"\r\n\r\n");
    let response = from([127, 0, 0, 1], envoy.addr(), &long).to_ascii_lowercase();
    assert!(
        response.contains(r#""api-key";r=99"#),
        "a hashed value can be long: {response}"
    );
}

#[test]
fn while_the_service_is_down_envoys_failure_mode_applies() {
    let upstream = Upstream::start();
    let service = tollgate(&[]);
    let lenient = rate_limited(RATELIMIT, &upstream, service.grpc);
    let strict = replaced(
        RATELIMIT,
        "failure_mode_deny: false",
        "failure_mode_deny: true",
    );
    let strict = rate_limited(&strict, &upstream, service.grpc);
    for _ in 0..5 {
        assert_eq!(login(&strict, &[]).status, 200);
    }
    is_limited(&login(&strict, &[]));
    is_limited(&login(&lenient, &[]));

    let address = service.grpc.to_string();
    drop(service);
    is_marked(&login(&lenient, &[("x-ratelimit-checked", "true")]));
    let refused = login(&strict, &[]);
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (500, None),
        "{refused:?}"
    );

    // The memory store starts empty, so five more requests pass.
    let _service = tollgate(&["--grpc", &address]);
    let counted = wait::until(PATIENCE, "Envoy to find the service again", || {
        let response = login(&lenient, &[]);
        response.header("ratelimit").is_some().then_some(response)
    });
    assert_eq!(
        counted.header("x-ratelimit-remaining"),
        Some("4"),
        "{counted:?}"
    );
    wait::until_true(PATIENCE, "the limit to apply again", || {
        login(&lenient, &[]).status == 429
    });
    wait::until_true(PATIENCE, "the other to notice too", || {
        login(&strict, &[]).status == 429
    });
}

#[test]
fn forward_auth_sees_the_request_as_the_client_sent_it() {
    let (upstream, service) = (Upstream::start(), tollgate(&[]));
    let envoy = authorised(&upstream, service.http);
    for left in (0..5).rev() {
        let passed = login(&envoy, &[]);
        assert_eq!(passed.status, 200, "{passed:?}\n{}", envoy.log());
        assert!(
            passed.text().starts_with("POST /auth/login"),
            "{}",
            passed.text()
        );
        assert_eq!(
            passed.header("x-ratelimit-remaining").map(str::to_owned),
            Some(left.to_string())
        );
        assert_eq!(
            passed.header("content-type"),
            Some("text/plain"),
            "the upstream's own header"
        );
    }
    is_limited(&login(&envoy, &[]));
    assert_eq!(upstream.answered(), 5);
    // Another method, another path, and a query that looks like the parameters of forward-auth.
    for path in ["/auth/login", "/", "/?proxy=nginx", "/a?deny_status=200"] {
        assert_eq!(
            reverse_proxy::get(envoy.addr(), path, &[]).status,
            200,
            "{path}"
        );
    }
    let keyed = reverse_proxy::get(envoy.addr(), "/v1/a", &[("x-api-key", "k")]);
    let policies = keyed.header("ratelimit-policy").expect("it was counted");
    assert!(policies.contains(r#""api-key";q=100"#), "{policies}");
}

#[test]
fn forward_auth_ignores_client_addresses_of_untrusted_peers() {
    let (upstream, service) = (Upstream::start(), tollgate(&[]));
    let envoy = authorised(&upstream, service.http);
    let attempt = |source: [u8; 4], claim: &str| {
        let request = format!(
            "POST /auth/login HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nContent-Length: 0\r\n\
             X-Forwarded-For: {claim}\r\nX-Real-IP: {claim}\r\nForwarded: for={claim}\r\n\
             X-Original-URI: /\r\nX-Original-Method: GET\r\nX-Forwarded-Uri: /\r\nX-Forwarded-Method: GET\r\n\
             X-Envoy-Original-Path: /\r\nX-Http-Method-Override: GET\r\n\r\n"
        );
        from(source, envoy.addr(), request.as_bytes())
    };
    for n in 1..=5 {
        let response = attempt([127, 0, 0, 2], &format!("198.51.100.{n}"));
        assert!(
            response.starts_with("HTTP/1.1 200 OK"),
            "{response}\n{}",
            envoy.log()
        );
    }
    for n in 6..=8 {
        let response = attempt([127, 0, 0, 2], &format!("198.51.100.{n}"));
        assert!(
            response.starts_with("HTTP/1.1 429 Too Many Requests"),
            "{response}"
        );
    }
    // A client cannot exhaust the limit of another one either.
    let response = attempt([127, 0, 0, 3], "127.0.0.2");
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
}

#[test]
fn without_the_service_forward_auth_denies() {
    let (upstream, service) = (Upstream::start(), tollgate(&[]));
    let envoy = authorised(&upstream, service.http);
    assert_eq!(reverse_proxy::get(envoy.addr(), "/", &[]).status, 200);
    drop(service);
    assert_eq!(reverse_proxy::get(envoy.addr(), "/", &[]).status, 503);
    assert_eq!(upstream.answered(), 1);
}

#[test]
fn forward_auth_can_let_requests_pass_but_marks_them() {
    let (upstream, service) = (Upstream::start(), tollgate(&[]));
    let lenient = replaced(
        EXT_AUTHZ,
        "failure_mode_allow: false",
        "failure_mode_allow: true",
    );
    let envoy = envoy(&lenient, &upstream, service.http);
    let checked = login(&envoy, &[("x-envoy-auth-failure-mode-allowed", "true")]);
    assert_eq!(checked.header("x-ratelimit-unchecked"), None);
    assert!(!checked.text().contains("unchecked"), "{}", checked.text());

    drop(service);
    is_marked(&login(&envoy, &[("x-ratelimit-unchecked", "false")]));
}

/// One unit for each API key.
fn one_per_key() -> Tollgate {
    let limits = replaced(LIMITS, "capacity: 100\n", "capacity: 1\n");
    let limits = replaced(&limits, "refill_rate: 10/s", "refill_rate: 1/h");
    Tollgate::with(&limits, &[], &[SECRET])
}

/// The response to a request with two lines of the same header.
fn with_keys(envoy: &Proxy, first: &str, second: &str) -> String {
    let request = format!(
        "GET /v1/a HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\
         X-Api-Key: {first}\r\nX-Api-Key: {second}\r\n\r\n"
    );
    from([127, 0, 0, 1], envoy.addr(), request.as_bytes())
}

/// Envoy's `ext_authz` joins the lines of a header before it sends them.
#[test]
fn a_second_line_of_a_header_is_no_new_key() {
    let (upstream, service) = (Upstream::start(), one_per_key());
    let envoy = authorised(&upstream, service.http);

    let answer = with_keys(&envoy, "k-1", "k-1");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for (first, second) in [("k-1", "1"), ("2", "k-1"), ("k-1", "3, 4")] {
        let answer = with_keys(&envoy, first, second);
        assert!(
            answer.starts_with("HTTP/1.1 429"),
            "{first} {second}: {answer}"
        );
    }
    assert_eq!(upstream.answered(), 1);
}

/// Envoy's rate limit filter sends the first line of a header, so that the upstream gets only that.
#[test]
fn the_upstream_gets_the_key_that_was_counted() {
    let (upstream, service) = (Upstream::start(), one_per_key());
    let envoy = rate_limited(RATELIMIT, &upstream, service.grpc);

    let answer = with_keys(&envoy, "k-1", "1");
    assert!(answer.contains("x-api-key: k-1\n"), "{answer}");
    assert_eq!(answer.matches("x-api-key: ").count(), 1, "{answer}");
    for second in ["2", "k-1"] {
        let answer = with_keys(&envoy, "k-1", second);
        assert!(answer.starts_with("HTTP/1.1 429"), "{second}: {answer}");
    }

    let without = reverse_proxy::get(envoy.addr(), "/v1/a", &[]);
    assert!(!without.text().contains("x-api-key"), "{}", without.text());
}

/// A client used to switch all limits off with a header that made them more than 16.
#[test]
fn one_more_header_does_not_switch_the_limits_off() {
    let upstream = Upstream::start();
    let service = Tollgate::with_config(&many_limits::limits());
    // One descriptor with everything, so that all limits apply to it.
    let config = replaced(
        RATELIMIT,
        "                    - remote_address: {}\n",
        "                    - remote_address: {}\n                    - request_headers: { header_name: x-api-key, descriptor_key: \"header:x-api-key\", skip_if_absent: true }\n",
    );
    let envoy = rate_limited(&config, &upstream, service.grpc);
    let headers = [("X-Api-Key", "k-1")];
    let answers: Vec<u16> = (0..4)
        .map(|_| reverse_proxy::get(envoy.addr(), "/", &headers).status)
        .collect();
    // The header is in two descriptors, so each request costs two of three units.
    assert_eq!(answers, [200, 429, 429, 429], "{}", envoy.log());
}

#[test]
fn the_upstream_gets_the_address_of_the_connection() {
    for shipped in [RATELIMIT, EXT_AUTHZ] {
        let (upstream, service) = (Upstream::start(), tollgate(&[]));
        let envoy = if shipped == RATELIMIT {
            rate_limited(RATELIMIT, &upstream, service.grpc)
        } else {
            authorised(&upstream, service.http)
        };
        let forged = [
            ("x-forwarded-for", "198.51.100.1"),
            ("x-real-ip", "198.51.100.1"),
            ("forwarded", "for=198.51.100.1"),
            ("x-ratelimit-unchecked", "198.51.100.1"),
        ];
        let seen = login(&envoy, &forged);
        assert!(
            seen.text().contains("x-forwarded-for: 127.0.0.1\n"),
            "{}",
            seen.text()
        );
        assert!(!seen.text().contains("198.51.100.1"), "{}", seen.text());
        assert_eq!(seen.header("x-ratelimit-unchecked"), None);
    }
}
