//! A real Caddy in front of an application, with the configuration from `deploy/`, and the real
//! service.

use testkit::reverse_proxy::{self, Proxy, Upstream};

use crate::deploy;
use crate::harness::Tollgate;
use crate::raw;
use crate::spoofing::{self, keys};

const LIMITS: &str = r#"
version: 1
client_ip: { trusted_proxies: ["127.0.0.0/8"] }
limits:
  - { name: login, match: { method: POST, path: /auth/login, host: shop.example }, key: [client_ip], algorithm: fixed_window, limit: 3, window: 1h }
"#;

struct Setup {
    app: Upstream,
    caddy: Proxy,
    _service: Tollgate,
}

impl Setup {
    fn start(limits: &str) -> Self {
        let (service, app) = (Tollgate::with_config(limits), Upstream::start());
        let caddy = Proxy::caddy(deploy::caddy())
            .set("tollgate", service.http)
            .set("app", app.addr())
            .start();
        Self {
            app,
            caddy,
            _service: service,
        }
    }

    /// A setup whose limit of three is exhausted.
    fn exhausted() -> Self {
        let setup = Self::start(LIMITS);
        for _ in 0..3 {
            let answer = spoofing::login(setup.caddy.addr(), &[]);
            assert_eq!(
                answer.status,
                200,
                "{}\n{}",
                answer.text(),
                setup.caddy.log()
            );
        }
        setup
    }
}

#[test]
fn allowed_and_denied_responses_carry_the_rate_limit_headers() {
    let setup = Setup::start(LIMITS);
    for left in (0..3).rev() {
        let answer = spoofing::login(setup.caddy.addr(), &[]);
        assert_eq!(
            answer.status,
            200,
            "{}\n{}",
            answer.text(),
            setup.caddy.log()
        );
        assert_eq!(
            answer.header("x-ratelimit-remaining"),
            Some(&*left.to_string())
        );
        assert_eq!(
            answer.header("ratelimit-policy"),
            Some(r#""login";q=3;w=3600"#)
        );
        assert_eq!(
            (
                answer.header("retry-after"),
                answer.header("x-ratelimit-fallback")
            ),
            (None, None)
        );
        assert!(
            answer.text().starts_with("POST /auth/login "),
            "{}",
            answer.text()
        );
    }
    let refused = spoofing::login(setup.caddy.addr(), &[]);
    assert_eq!(refused.status, 429);
    assert_eq!(
        refused.header("content-type"),
        Some("application/problem+json")
    );
    assert!(refused.header("retry-after").is_some());
    let body: serde_json::Value = serde_json::from_slice(&refused.body).expect("JSON");
    assert_eq!(
        body["violated-policies"],
        serde_json::json!(["login"]),
        "the service's own body"
    );
    assert_eq!(setup.app.answered(), 3);

    let free = reverse_proxy::get(setup.caddy.addr(), "/free", &[("Host", "shop.example")]);
    assert_eq!(free.status, 200, "{}", free.text());
    assert!(
        !free
            .headers
            .iter()
            .any(|(name, _)| name.contains("ratelimit")),
        "{free:?}"
    );
}

#[test]
fn no_header_of_a_client_bypasses_the_limit() {
    let setup = Setup::exhausted();
    let bypasses = spoofing::bypasses(setup.caddy.addr());
    assert!(bypasses.is_empty(), "{bypasses:#?}");
    assert_eq!(setup.app.answered(), 3);
}

#[test]
fn every_spelling_of_a_path_is_limited() {
    let setup = Setup::exhausted();
    // Caddy escapes the backslash, so for the application it is part of a name.
    let bypasses = spoofing::other_spellings(setup.caddy.addr(), &[]);
    assert!(bypasses.is_empty(), "{bypasses:#?}");
    assert_eq!(setup.app.answered(), 3);
}

/// An address at which nothing listens.
fn closed_port() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

#[test]
fn a_degraded_decision_is_marked() {
    let closed = closed_port();
    let store =
        format!("version: 1\nstore: {{ type: redis, endpoints: [\"redis://{closed}\"] }}\n");
    let setup = Setup::start(&LIMITS.replace("version: 1\n", &store));
    let answer = spoofing::login(setup.caddy.addr(), &[]);
    assert_eq!(
        (answer.status, answer.header("x-ratelimit-fallback")),
        (200, Some("true")),
        "{answer:?}"
    );
    assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
}

#[test]
fn every_spelling_of_a_key_is_counted() {
    let setup = Setup::start(keys::LIMITS);
    let fresh = keys::fresh_counters(setup.caddy.addr(), keys::get);
    assert!(fresh.is_empty(), "{fresh:#?}");
}

#[test]
fn the_application_gets_the_address_of_the_connection() {
    let setup = Setup::start(LIMITS);
    let forged = [
        ("X-Forwarded-For", "198.51.100.1"),
        ("X-Real-IP", "198.51.100.1"),
        ("Forwarded", "for=198.51.100.1"),
        ("X_Forwarded_For", "198.51.100.1"),
        ("X-RateLimit-Permit", "198.51.100.1"),
        ("X-RateLimit-Unchecked", "198.51.100.1"),
    ];
    let seen = spoofing::login(setup.caddy.addr(), &forged);
    assert!(
        seen.text().contains("x-forwarded-for: 127.0.0.1\n"),
        "{}",
        seen.text()
    );
    assert!(!seen.text().contains("198.51.100.1"), "{}", seen.text());
}

/// With the part of `docs/proxies.md` that lets requests pass.
#[test]
fn requests_that_pass_without_a_decision_are_marked() {
    let page = include_str!("../../../../docs/proxies.md");
    let (_, part) = page.split_once("handle_errors {").expect("the part");
    let (part, _) = part.split_once("```").expect("its end");
    let part = deploy::put(part, "127.0.0.1:3000", "@app@");
    let file = deploy::caddy();
    let site = file.trim_end().strip_suffix('}').expect("a site");
    let (service, app) = (Tollgate::with_config(LIMITS), Upstream::start());
    let start = |app: std::net::SocketAddr| {
        Proxy::caddy(format!("{site}\nhandle_errors {{{part}\n}}\n"))
            .set("tollgate", service.http)
            .set("app", app)
            .start()
    };
    let caddy = start(app.addr());
    let forged = [("X-RateLimit-Unchecked", "false")];
    let checked = spoofing::login(caddy.addr(), &forged);
    assert_eq!(checked.status, 200, "{}", caddy.log());
    assert_eq!(checked.header("x-ratelimit-unchecked"), None);
    assert!(!checked.text().contains("unchecked"), "{}", checked.text());

    // An application that is down is not Tollgate's outage.
    let answer = spoofing::login(start(closed_port()).addr(), &[]);
    assert_eq!(
        (answer.status, answer.header("x-ratelimit-unchecked")),
        (502, None)
    );

    drop(service);
    let answer = spoofing::login(caddy.addr(), &forged);
    assert_eq!(
        (answer.status, answer.header("x-ratelimit-unchecked")),
        (200, Some("true")),
        "{}",
        caddy.log()
    );
    let seen = answer.text();
    assert!(seen.contains("x-ratelimit-unchecked: true\n"), "{seen}");
    assert!(!seen.contains("false"), "{seen}");
}

/// After the upgrade, Caddy would pass on requests without a check.
#[test]
fn an_upgrade_to_http2_is_refused() {
    let setup = Setup::start(LIMITS);
    let upgrade = |protocol: &str| {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        );
        raw::exchange(setup.caddy.addr(), request.as_bytes(), false).status
    };

    for protocol in ["h2c", "H2C", "websocket, h2c"] {
        assert_eq!(upgrade(protocol), 400, "{protocol}");
    }
    assert_eq!(upgrade("websocket"), 200);
}
