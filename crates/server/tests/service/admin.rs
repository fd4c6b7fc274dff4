//! The admin port: access control and the admin API.

mod keys;
mod metrics;
mod reload;
mod top;
mod views;

use testkit::reverse_proxy::{self, Response};

use crate::harness::Tollgate;
use crate::load::Connection;

const TOKEN: &str = "a-token-of-enough-letters";

/// A limit by address and mail, one by a hashed secret with tiers, and two optional ones.
const CONFIG: &str = r#"
hash_keys: ["header:x-api-key"]
hash_secret: not-so-secret-in-a-test
tiers:
  free: { capacity: 10, refill_rate: 1/hour }
  pro: { capacity: 100, refill_rate: 1/hour }
limits:
  - { name: login, match: { method: POST, path: "/auth/**" }, key: [client_ip, email],
      algorithm: sliding_log, limit: 3, window: 15m, on_store_failure: deny }
  - { name: plan, key: ["header:x-api-key | client_ip"],
      algorithm: token_bucket, tier: { by: tier, default: free } }
  - { name: quota, key: [tenant],
      algorithm: fixed_window, align: clock, limit: 5, window: 1d, optional: true, shadow: true }
  - { name: jobs, key: [tenant],
      algorithm: concurrency, limit: 2, permit_timeout: 30s, optional: true, consistency: local }
"#;

/// Sends a request to the admin port.
fn send(service: &Tollgate, method: &str, path: &str) -> Response {
    reverse_proxy::send(service.admin, method, path, &[], b"")
}

fn get(service: &Tollgate, path: &str) -> Response {
    send(service, "GET", path)
}

/// The body of a response, which must be JSON.
fn json(response: &Response) -> serde_json::Value {
    serde_json::from_slice(&response.body).expect("a body of JSON")
}

/// Checks one limit by name.
fn check(service: &Tollgate, limit: &str, attributes: &str) -> Response {
    service.check(&format!(
        r#"{{"attributes": {attributes}, "limits": ["{limit}"]}}"#
    ))
}

#[test]
fn unknown_paths_and_methods_are_rejected() {
    let service = Tollgate::with_config(CONFIG);
    let missing = get(&service, "/admin/nothing");
    assert_eq!(
        (missing.status, json(&missing)["code"].as_str()),
        (404, Some("not-found"))
    );
    for (method, path, allow) in [
        ("POST", "/admin/limits", "GET, HEAD"),
        ("DELETE", "/metrics", "GET, HEAD"),
        ("PUT", "/admin/keys?limit=login", "GET, HEAD, DELETE"),
        ("GET", "/admin/reload", "POST"),
        ("POST", "/", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
    ] {
        let rejected = send(&service, method, path);
        assert_eq!(
            (rejected.status, rejected.header("allow")),
            (405, Some(allow)),
            "{method} {path}"
        );
        assert_eq!(
            rejected.header("content-type"),
            Some("application/problem+json")
        );
    }
    let head = send(&service, "HEAD", "/admin/status");
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn a_configured_token_is_required_except_for_health_and_files() {
    let service = Tollgate::with(CONFIG, &[], &[("TOLLGATE_ADMIN_TOKEN", TOKEN)]);
    let routes = [
        ("GET", "/metrics"),
        ("GET", "/admin/limits"),
        ("GET", "/admin/status"),
        ("GET", "/admin/keys?limit=quota&tenant=a"),
        ("DELETE", "/admin/keys?limit=quota&tenant=a"),
        ("POST", "/admin/reload"),
        ("GET", "/admin/nothing"),
    ];
    let right = format!("Bearer {TOKEN}");
    for (method, path) in routes {
        for headers in [
            vec![],
            vec![("authorization", "Bearer wrong-wrong-wrong-wrong")],
        ] {
            let rejected = reverse_proxy::send(service.admin, method, path, &headers, b"");
            assert_eq!(rejected.status, 401, "{method} {path}");
            assert_eq!(rejected.header("www-authenticate"), Some("Bearer"));
            assert_eq!(
                rejected.header("content-type"),
                Some("application/problem+json")
            );
        }
        let headers = [
            ("authorization", right.as_str()),
            ("host", "tollgate.example"),
        ];
        let accepted = reverse_proxy::send(service.admin, method, path, &headers, b"");
        let expected = if path == "/admin/nothing" { 404 } else { 200 };
        assert_eq!(
            accepted.status,
            expected,
            "{method} {path}: {}",
            accepted.text()
        );
    }
    for open in ["/healthz", "/readyz", "/", "/dashboard/app.js"] {
        assert_eq!(
            get(&service, open).status,
            200,
            "{open}: the page must load before it can ask for a token"
        );
    }
    assert!(!service.log().contains(TOKEN));
}

#[test]
fn cross_site_and_rebound_requests_are_rejected() {
    let service = Tollgate::with_config(CONFIG);
    let send_with = |method: &str, path: &str, name: &str, value: &str| {
        reverse_proxy::send(service.admin, method, path, &[(name, value)], b"")
    };
    let keys = "/admin/keys?limit=quota&tenant=a";
    for (method, path) in [("POST", "/admin/reload"), ("DELETE", keys)] {
        for (name, value) in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "https://elsewhere.example"),
            ("origin", "null"),
        ] {
            let rejected = send_with(method, path, name, value);
            assert_eq!(
                (rejected.status, json(&rejected)["code"].as_str()),
                (403, Some("cross-site")),
                "{value}"
            );
        }
        let own = format!("http://{}", service.admin);
        assert_eq!(send_with(method, path, "origin", &own).status, 200);
        assert_eq!(send(&service, method, path).status, 200);
    }
    let rebound = send_with("GET", "/admin/limits", "host", "rebind.example");
    assert_eq!(
        (rebound.status, json(&rebound)["code"].as_str()),
        (403, Some("foreign-host"))
    );
    assert_eq!(
        send_with("GET", "/admin/limits", "host", "localhost:9090").status,
        200
    );
    assert_eq!(
        send_with("GET", "/healthz", "host", "probe.example").status,
        200
    );
}

#[test]
fn a_public_address_requires_a_token() {
    let start = |token: Option<&str>| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args([
            "serve",
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
            "--admin",
            "0.0.0.0:0",
        ]);
        command
            .env_remove("TOLLGATE_ADMIN_TOKEN")
            .envs(token.map(|token| ("TOLLGATE_ADMIN_TOKEN", token)));
        let output = command.output().expect("the binary was built");
        (
            output.status.code(),
            String::from_utf8(output.stderr).expect("text"),
        )
    };
    let (code, stderr) = start(None);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("TOLLGATE_ADMIN_TOKEN is not set") && stderr.contains("0.0.0.0"),
        "{stderr}"
    );
    let (code, stderr) = start(Some("short"));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("at least 16") && !stderr.contains("\"short\""),
        "{stderr}"
    );
}

#[test]
fn a_public_address_accepts_the_token() {
    let arguments = ["--admin", "0.0.0.0:0"];
    let service = Tollgate::with(CONFIG, &arguments, &[("TOLLGATE_ADMIN_TOKEN", TOKEN)]);
    let here = std::net::SocketAddr::from(([127, 0, 0, 1], service.admin.port()));
    assert_eq!(reverse_proxy::get(here, "/admin/status", &[]).status, 401);
    let right = format!("Bearer {TOKEN}");
    assert_eq!(
        reverse_proxy::get(here, "/admin/status", &[("authorization", right.as_str())]).status,
        200
    );
}

/// Operators need access most when clients have filled the service.
#[test]
fn the_admin_port_responds_when_clients_have_filled_the_service() {
    let service = Tollgate::with_config(&format!("server: {{ connections_max: 1 }}{CONFIG}"));
    let mut held = Connection::open(service.http).expect("it listens");
    held.begin_check(9).expect("it is handled");
    assert_eq!(service.check("{}").status, 503);

    assert_eq!(get(&service, "/healthz").status, 200);
    let status = json(&get(&service, "/admin/status"));
    assert!(status["shed"].as_u64() >= Some(1), "{status}");
    assert!(status["connections"].as_u64() >= Some(1), "{status}");
}

/// Without a token nothing can be held open on the admin port.
#[test]
fn silent_connections_do_not_fill_the_admin_port() {
    let variables = [("TOLLGATE_ADMIN_TOKEN", TOKEN)];
    let service = Tollgate::with(CONFIG, &[], &variables);
    let _silent: Vec<Connection> = (0..400)
        .map(|_| Connection::open(service.admin).expect("it listens"))
        .collect();

    let token = format!("Bearer {TOKEN}");
    let authorized = [("authorization", token.as_str())];
    for _ in 0..20 {
        assert_eq!(get(&service, "/healthz").status, 200);
        let status = reverse_proxy::get(service.admin, "/admin/status", &authorized);
        assert_eq!(status.status, 200, "{}", status.text());
    }
}
