//! A real nginx in front of an application, with the configuration from `deploy/`, and the real
//! service.

use serde_json::json;
use testkit::reverse_proxy::{self, Proxy, Response, Upstream};
use testkit::wait;

use crate::deploy;
use crate::harness::{PATIENCE, Tollgate};
use crate::load_command;
use crate::raw;
use crate::spoofing::{self, keys};

/// Limits that the tests try to bypass.
const LIMITS: &str = r#"
version: 1
client_ip: { trusted_proxies: ["127.0.0.0/8"] }
limits:
  - { name: login, match: { method: POST, path: /auth/login, host: shop.example }, key: [client_ip], algorithm: fixed_window, limit: 3, window: 1h }
  - { name: pages, match: { path: "/pages/**" }, key: [client_ip], algorithm: fixed_window, limit: 1000, window: 1h }
"#;

struct Setup {
    service: Tollgate,
    app: Upstream,
    nginx: Proxy,
}

impl Setup {
    fn start(limits: &str) -> Self {
        let (service, app) = (Tollgate::with_config(limits), Upstream::start());
        let nginx = Proxy::nginx(deploy::patient(&deploy::nginx()))
            .set("tollgate", service.http)
            .set("app", app.addr())
            .start();
        Self {
            service,
            app,
            nginx,
        }
    }

    fn login(&self, headers: &[(&str, &str)]) -> Response {
        spoofing::login(self.nginx.addr(), headers)
    }
}

#[test]
fn allowed_and_denied_responses_carry_the_rate_limit_headers() {
    let setup = Setup::start(LIMITS);
    for left in (0..3).rev() {
        let answer = setup.login(&[]);
        assert_eq!(
            answer.status,
            200,
            "{}\n{}",
            answer.text(),
            setup.nginx.log()
        );
        assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
        assert_eq!(
            answer.header("x-ratelimit-remaining"),
            Some(&*left.to_string())
        );
        assert_eq!(
            answer.header("ratelimit-policy"),
            Some(r#""login";q=3;w=3600"#)
        );
        assert!(
            answer
                .header("ratelimit")
                .is_some_and(|field| field.starts_with(&format!(r#""login";r={left};t="#)))
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
    let refused = setup.login(&[]);
    assert_eq!(refused.status, 429);
    assert_eq!(
        refused.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    let retry_after: u64 = refused
        .header("retry-after")
        .expect("when to come back")
        .parse()
        .expect("seconds");
    assert!((3_590..=3_600).contains(&retry_after), "{retry_after}");
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    let body: serde_json::Value = serde_json::from_slice(&refused.body).expect("JSON");
    assert_eq!(body["status"], 429);
    assert_eq!(
        setup.app.answered(),
        3,
        "no denied request reached the application"
    );

    let free = reverse_proxy::get(setup.nginx.addr(), "/free", &[("Host", "shop.example")]);
    assert_eq!(free.status, 200);
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
    let setup = Setup::start(LIMITS);
    for _ in 0..3 {
        assert_eq!(setup.login(&[]).status, 200);
    }
    let bypasses = spoofing::bypasses(setup.nginx.addr());
    assert!(bypasses.is_empty(), "{bypasses:#?}");
    assert_eq!(setup.app.answered(), 3);
}

#[test]
fn every_spelling_of_a_path_is_limited() {
    let setup = Setup::start(LIMITS);
    for _ in 0..3 {
        assert_eq!(setup.login(&[]).status, 200);
    }
    let bypasses = spoofing::other_spellings(setup.nginx.addr(), &["/auth\\login"]);
    assert!(bypasses.is_empty(), "{bypasses:#?}");
    assert_eq!(setup.app.answered(), 3);
}

/// The length of a permit depends on its keys. A response head longer than nginx's buffers would
/// look like an outage.
#[test]
fn a_long_permit_is_not_taken_for_an_outage() {
    let work = |n| {
        format!(
            "  - {{ name: work-{n}, match: {{ path: /work }}, key: [\"header:x-project\"], algorithm: concurrency, limit: 1, permit_timeout: 1h }}\n"
        )
    };
    let setup = Setup::start(&(LIMITS.to_owned() + &(0..16).map(work).collect::<String>()));
    let project = "x".repeat(1_000);
    let work = || reverse_proxy::get(setup.nginx.addr(), "/work", &[("X-Project", &project)]);
    assert_eq!(
        [work().status, work().status],
        [200, 429],
        "{}",
        setup.nginx.log()
    );
    assert!(
        !setup.nginx.log().contains("too big header"),
        "{}",
        setup.nginx.log()
    );
    let longer = "x".repeat(1_100);
    let answer = reverse_proxy::get(setup.nginx.addr(), "/work", &[("X-Project", &longer)]);
    assert_eq!(answer.status, 403, "what cannot be counted does not pass");
}

#[test]
fn every_spelling_of_a_key_is_counted() {
    let setup = Setup::start(keys::LIMITS);
    let fresh = keys::fresh_counters(setup.nginx.addr(), keys::get);
    assert!(fresh.is_empty(), "{fresh:#?}");
}

#[test]
fn any_head_ends_in_a_decision() {
    let setup = Setup::start(LIMITS);
    let status = |path: &[u8], lines: usize| {
        let mut request = [b"POST ", path, b" HTTP/1.1\r\nHost: shop.example\r\n"].concat();
        for n in 0..lines {
            request.extend(format!("X-{n}: 1\r\n").bytes());
        }
        request.extend(b"Content-Length: 0\r\nConnection: close\r\n\r\n");
        raw::exchange(setup.nginx.addr(), &request, false).status
    };
    assert_eq!(status(b"/auth/login", 0), 200);
    assert_eq!(status(b"/auth/login", 150), 200, "{}", setup.nginx.log());
    assert_eq!(status(b"/auth/login?x=\xff\xc3\xa9", 0), 200);
    assert_eq!(status(b"/auth/login?x=\xff", 150), 429);
    // More than is read; recent versions of nginx reject it themselves.
    assert!(matches!(status(b"/auth/login", 1_500), 400 | 403));
    assert_eq!(setup.app.answered(), 3);
}

#[test]
fn the_application_gets_the_address_of_the_connection() {
    let setup = Setup::start(LIMITS);
    let forged = [
        ("X-Forwarded-For", "198.51.100.1"),
        ("X-Real-IP", "198.51.100.1"),
        ("Forwarded", "for=198.51.100.1"),
        ("X-RateLimit-Unchecked", "198.51.100.1"),
    ];
    let seen = setup.login(&forged);
    assert!(
        seen.text().contains("x-forwarded-for: 127.0.0.1\n"),
        "{}",
        seen.text()
    );
    assert!(!seen.text().contains("198.51.100.1"), "{}", seen.text());
}

#[test]
fn while_the_service_is_down_requests_pass() {
    let setup = Setup::start(LIMITS);
    let Setup {
        service,
        app,
        nginx,
    } = setup;
    for _ in 0..3 {
        assert_eq!(spoofing::login(nginx.addr(), &[]).status, 200);
    }
    assert_eq!(spoofing::login(nginx.addr(), &[]).status, 429);
    let unchecked = nginx.directory().join("tollgate-unchecked.log");
    let unchecked = || std::fs::read_to_string(&unchecked).expect("nginx opens it at its start");
    assert_eq!(unchecked(), "");

    drop(service);
    for passed in 1..=2 {
        let answer = spoofing::login(nginx.addr(), &[("X-RateLimit-Unchecked", "false")]);
        assert_eq!(
            (answer.status, answer.header("x-ratelimit-limit")),
            (200, None),
            "{}",
            nginx.log()
        );
        // The client, the application and the log are told.
        assert_eq!(answer.header("x-ratelimit-unchecked"), Some("true"));
        let seen = answer.text();
        assert!(seen.contains("x-ratelimit-unchecked: true\n"), "{seen}");
        assert!(!seen.contains("false"), "{seen}");
        wait::until_true(PATIENCE, "a line for each request", || {
            unchecked().matches("POST /auth/login").count() == passed
        });
    }
    assert_eq!(app.answered(), 5);
}

/// `tollgate load` does not call a limit held that most requests never met.
#[test]
fn a_load_reports_what_nginx_lets_pass() {
    let Setup {
        service,
        app: _app,
        nginx,
    } = Setup::start(LIMITS);
    let load = |path: &str| {
        let url = nginx.addr().to_string();
        let rate = ["--rate", "100", "--duration", "200ms", "--retry-for", "0s"];
        let (code, report) =
            load_command::report(&[], &[&["--url", &url, "--get", path][..], &rate].concat());
        let [requests, failures] = ["requests", "failures"].map(|name| report[name].clone());
        let counts = ["allowed", "unlimited", "unchecked"].map(|name| requests[name].as_u64());
        (code, counts.map(Option::unwrap_or_default), failures)
    };

    assert_eq!(load("/pages/1"), (0, [20, 0, 0], json!([])));
    assert_eq!(load("/free"), (1, [20, 20, 0], json!(["unlimited"])));
    drop(service);
    assert_eq!(load("/pages/1"), (1, [20, 20, 20], json!(["unlimited"])));
}

#[test]
fn a_limit_that_refuses_what_it_cannot_count_is_503() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    let unavailable = LIMITS.replace("version: 1", &format!(
        "version: 1\nstore: {{ type: redis, endpoints: [\"redis://{closed}\"] }}\ndefaults: {{ on_store_failure: deny }}"
    ));
    let setup = Setup::start(&unavailable);
    let answer = setup.login(&[]);
    assert_eq!(
        (answer.status, answer.header("x-ratelimit-fallback")),
        (503, Some("true")),
        "{}",
        answer.text()
    );
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(
        answer.text().contains("#temporary-reduced-capacity"),
        "{}",
        answer.text()
    );
    assert_eq!(setup.app.answered(), 0);
}
