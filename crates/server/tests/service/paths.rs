//! Paths that servers read differently: every front applies the limit of any reading, or refuses
//! the request if the limit says so.

use std::net::SocketAddr;

use serde_json::{Value, json};
use testkit::reverse_proxy::{self, Proxy, Response, Upstream};
use tollgate_envoy::{Code, Entry, RateLimitDescriptor, RateLimitRequest};

use crate::deploy;
use crate::grpc::client::Client;
use crate::harness::Tollgate;

/// Spellings of the login. A raw HTTP request can carry all of them.
const LOGINS: [&str; 16] = [
    "/auth%2Flogin",
    "/%2Fauth/login",
    "/auth//../login",
    "/auth/x//../../login",
    "/auth/;/../login",
    "//x/auth/login",
    "//u@x/auth/login",
    "/AUTH/LOGIN",
    "/x/..%2fauth/login",
    "/auth%2f./login",
    "/auth/login%0a",
    "/auth%5Clogin",
    "/auth%252Flogin",
    "/auth/login%3Fx",
    "/auth/login%23x",
    "/auth/login;x=1",
];

fn config(limit: u32, on_ambiguous_path: &str) -> String {
    format!(
        "version: 1\n\
         client_ip: {{ trusted_proxies: [\"127.0.0.0/8\"] }}\n\
         limits:\n\
         - {{ name: login, match: {{ method: POST, path: /auth/login }}, key: [client_ip], \
         algorithm: fixed_window, limit: {limit}, window: 1h, \
         on_ambiguous_path: {on_ambiguous_path} }}\n"
    )
}

/// The fronts, each with a way to ask about a path.
fn check(service: &Tollgate, path: &str) -> Response {
    let attributes = json!({"client_ip": "203.0.113.7", "method": "POST", "path": path});
    service.check(&json!({ "attributes": attributes }).to_string())
}

fn nginx(service: &Tollgate, path: &str) -> Response {
    let headers = [("X-Original-URI", path), ("X-Original-Method", "POST")];
    let target = "/v1/forward-auth?proxy=nginx&deny_status=403";
    reverse_proxy::get(service.http, target, &headers)
}

fn caddy(service: &Tollgate, path: &str) -> Response {
    let headers = [("X-Forwarded-Uri", path), ("X-Forwarded-Method", "POST")];
    reverse_proxy::get(service.http, "/v1/forward-auth?proxy=caddy", &headers)
}

fn envoy(client: &mut Client, path: &str) -> Code {
    let entry = |(key, value): (&str, &str)| Entry {
        key: key.to_owned(),
        value: value.as_bytes().to_vec().into(),
    };
    let entries = [
        ("client_ip", "203.0.113.7"),
        ("method", "POST"),
        ("path", path),
    ];
    let descriptor = RateLimitDescriptor {
        entries: entries.map(entry).into(),
        ..Default::default()
    };
    let request = RateLimitRequest {
        domain: "shop".to_owned(),
        descriptors: vec![descriptor],
        ..Default::default()
    };
    client.ask(&request).overall_code()
}

fn refused_paths(admin: SocketAddr) -> String {
    let page = reverse_proxy::get(admin, "/metrics", &[]).text();
    let line = page
        .lines()
        .find(|line| line.starts_with("tollgate_ambiguous_paths_total"));
    line.expect("the metric").to_owned()
}

#[test]
fn every_front_counts_every_spelling_of_the_login() {
    let service = Tollgate::with_config(&config(2, "match_any"));
    let mut client = Client::connect(service.grpc);
    for path in ["/auth/login", "/auth%2Flogin"] {
        assert_eq!(check(&service, path).status, 200, "{path}");
        assert_eq!(nginx(&service, path).status, 200, "{path}");
    }

    for path in LOGINS {
        assert_eq!(check(&service, path).status, 429, "{path}");
        assert_eq!(nginx(&service, path).status, 403, "{path}");
        assert_eq!(caddy(&service, path).status, 429, "{path}");
        assert_eq!(envoy(&mut client, path), Code::OverLimit, "{path}");
    }
    assert_eq!(check(&service, "/auth/logout").status, 200);
    assert_eq!(nginx(&service, "/auth%2Flogout").status, 200);
}

#[test]
fn every_front_refuses_an_ambiguous_path_if_the_limit_says_so() {
    let service = Tollgate::with_config(&config(1_000, "refuse"));
    let mut client = Client::connect(service.grpc);
    assert_eq!(
        refused_paths(service.admin),
        "tollgate_ambiguous_paths_total 0"
    );

    let refused = check(&service, "/auth%2Flogin");
    assert_eq!(refused.status, 422);
    let body: Value = serde_json::from_slice(&refused.body).expect("JSON");
    assert_eq!(body["code"], "ambiguous-path", "{body}");
    let refused = nginx(&service, "/auth%2Flogin");
    assert_eq!(
        (refused.status, refused.header("x-ratelimit-status")),
        (403, Some("422"))
    );
    assert_eq!(caddy(&service, "/auth%2Flogin").status, 422);
    assert_eq!(envoy(&mut client, "/auth%2Flogin"), Code::OverLimit);
    assert_eq!(
        refused_paths(service.admin),
        "tollgate_ambiguous_paths_total 4"
    );

    for path in [
        "/auth/login",
        "/auth/login/",
        "/Auth/Login?next=%2F",
        "/files/a%2Fb",
    ] {
        assert_eq!(check(&service, path).status, 200, "{path}");
        assert_eq!(nginx(&service, path).status, 200, "{path}");
        assert_eq!(envoy(&mut client, path), Code::Ok, "{path}");
    }
}

/// With the shipped file, and with a `proxy_pass` that makes nginx decode the path.
#[test]
fn no_spelling_of_the_login_passes_nginx_uncounted() {
    for target in ["http://app;", "http://app/;", "http://app$uri;"] {
        let (service, app) = (
            Tollgate::with_config(&config(1, "match_any")),
            Upstream::start(),
        );
        let file = deploy::put(
            &deploy::patient(&deploy::nginx()),
            "proxy_pass http://app;",
            &format!("proxy_pass {target}"),
        );
        let nginx = Proxy::nginx(file)
            .set("tollgate", service.http)
            .set("app", app.addr())
            .start();

        let send = |path| reverse_proxy::send(nginx.addr(), "POST", path, &[("Host", "a")], b"");
        assert_eq!(send("/auth/login").status, 200, "{}", nginx.log());
        for path in LOGINS {
            assert_eq!(
                send(path).status,
                429,
                "{path} with {target}\n{}",
                nginx.log()
            );
        }
        assert_eq!(app.answered(), 1);
    }
}
