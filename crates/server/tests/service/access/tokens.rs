//! Tokens of the data ports.

use testkit::reverse_proxy::{self, Response};
use testkit::wait;
use tollgate_envoy::{RateLimitOverride, RateLimitUnit};

use super::{ANN, LIMITS, metric, stderr, tollgate};
use crate::grpc::client::Client;
use crate::grpc::{about, codes};
use crate::harness::{PATIENCE, Tollgate};

const SHOP: &str = "shop-secret-0123456789";
const OPS: &str = "ops-secret-0123456789";
const TOKENS: &str = r#"
server:
  tokens:
    - { name: shop, token: "${SHOP}" }
    - { name: ops, token: "sha256:OPS", allow: [check, peek, refund, release, reset, inline] }
    - { name: reader, token: reader-secret-0123456789, allow: [peek] }
"#;
/// `printf ops-secret-0123456789 | sha256sum`
const OPS_HASH: &str = "f5b4dc3e19e94ab950fbe0570892aa14e0092f386160b2ee9c831def3390679d";

fn config() -> String {
    format!("{}{LIMITS}", TOKENS.replace("OPS", OPS_HASH))
}

fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Tollgate {
    Tollgate::with(
        &config(),
        arguments,
        &[&[("SHOP", SHOP)], variables].concat(),
    )
}

fn send(service: &Tollgate, path: &str, headers: &[(&str, &str)]) -> Response {
    reverse_proxy::send(service.http, "POST", path, headers, ANN.as_bytes())
}

fn with_token(service: &Tollgate, path: &str, token: &str) -> Response {
    send(
        service,
        path,
        &[("authorization", &format!("Bearer {token}"))],
    )
}

#[test]
fn a_token_is_required_and_good_for_what_it_allows() {
    let service = start(&[], &[]);

    for (path, token, expected) in [
        ("/v1/check", SHOP, 200),
        ("/v1/peek", SHOP, 200),
        ("/v1/refund", SHOP, 403),
        ("/v1/check", OPS, 200),
        ("/v1/refund", OPS, 200),
        ("/v1/release", OPS, 422),
        ("/v1/peek", "reader-secret-0123456789", 200),
        ("/v1/check", "reader-secret-0123456789", 403),
        ("/v1/release", "reader-secret-0123456789", 403),
        ("/v1/check", "wrong-secret-0123456789", 401),
        ("/v1/check", OPS_HASH, 401),
    ] {
        let answer = with_token(&service, path, token);
        assert_eq!(answer.status, expected, "{path} {token}: {}", answer.text());
    }

    let missing = send(&service, "/v1/check", &[]);
    assert_eq!(missing.status, 401);
    assert_eq!(missing.header("www-authenticate"), Some("Bearer"));
    assert_eq!(
        missing.header("content-type"),
        Some("application/problem+json")
    );
    assert!(
        missing.text().contains("X-Tollgate-Token"),
        "{}",
        missing.text()
    );
    let refused = with_token(&service, "/v1/refund", SHOP).text();
    assert!(
        refused.contains("`shop`") && refused.contains("`refund`"),
        "{refused}"
    );

    // A page that knows the token is one of the operator's.
    let page = [
        ("x-tollgate-token", SHOP),
        ("origin", "https://app.example"),
    ];
    assert_eq!(send(&service, "/v1/check", &page).status, 200);
    for open in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(
            reverse_proxy::get(service.http, open, &[]).status,
            200,
            "{open}"
        );
    }
}

/// A proxy brings its token next to the `Authorization` of its client.
#[test]
fn forward_auth_takes_the_token_of_the_proxy() {
    let service = start(&[], &[]);
    let path = "/v1/forward-auth?proxy=nginx";
    let original = ("x-original-uri", "/");
    let client = ("authorization", "Bearer of-the-client-0123456789");
    assert_eq!(send(&service, path, &[original, client]).status, 401);
    let proxy = ("x-tollgate-token", SHOP);
    assert_eq!(send(&service, path, &[original, client, proxy]).status, 200);
    assert_eq!(send(&service, path, &[original, proxy, proxy]).status, 401);
}

#[test]
fn grpc_requires_a_token_and_its_permissions() {
    const UNAUTHENTICATED: &str = "16";
    const PERMISSION_DENIED: &str = "7";
    let service = start(&[], &[]);
    let ann = about(&[("client_ip", "203.0.113.7")]);
    let mut refund = ann.clone();
    refund.descriptors[0].is_negative_hits = true;
    let mut inline = ann.clone();
    inline.descriptors[0].limit = Some(RateLimitOverride {
        requests_per_unit: 5,
        unit: RateLimitUnit::Hour.into(),
        ..RateLimitOverride::default()
    });

    let mut anonymous = Client::connect(service.grpc);
    let (status, text) = anonymous.fault(&ann);
    assert_eq!(status, UNAUTHENTICATED, "{text}");
    // The message without fields asks about the whole server.
    let health = anonymous.call("/grpc.health.v1.Health/Check", &());
    assert_eq!(health.status, "0");

    let bearer = |token: &str| {
        Client::connect(service.grpc).with_metadata("authorization", &format!("Bearer {token}"))
    };
    let (status, _) = bearer("wrong-secret-0123456789").fault(&ann);
    assert_eq!(status, UNAUTHENTICATED);
    let mut shop = bearer(SHOP);
    assert_eq!(codes(&shop.ask(&ann)).len(), 1);
    for (request, permission) in [(&refund, "refund"), (&inline, "inline")] {
        let (status, text) = shop.fault(request);
        assert_eq!(status, PERMISSION_DENIED);
        assert!(text.contains("shop") && text.contains(permission), "{text}");
    }

    let mut ops = Client::connect(service.grpc).with_metadata("x-tollgate-token", OPS);
    for request in [&ann, &refund, &inline] {
        assert_eq!(codes(&ops.ask(request)).len(), 1);
    }
    let accepted = metric(
        &service,
        r#"tollgate_requests_total{token="ops",result="accepted"}"#,
    );
    assert_eq!(accepted.as_deref(), Some("3"), "one for each request");
}

#[test]
fn a_reload_rotates_tokens() {
    let service = start(&[], &[]);
    let reload = || reverse_proxy::send(service.admin, "POST", "/admin/reload", &[], b"");
    assert_eq!(with_token(&service, "/v1/check", SHOP).status, 200);

    let next = "next-secret-0123456789";
    let both = format!("    - {{ name: shop-next, token: {next} }}\n{LIMITS}");
    service.rewrite_config(&config().replace(LIMITS, &both));
    assert_eq!(reload().status, 200);
    assert_eq!(with_token(&service, "/v1/check", SHOP).status, 200);
    assert_eq!(with_token(&service, "/v1/check", next).status, 200);

    let only = format!("server: {{ tokens: [{{ name: shop-next, token: {next} }}] }}\n{LIMITS}");
    service.rewrite_config(&only);
    assert_eq!(reload().status, 200);
    assert_eq!(with_token(&service, "/v1/check", SHOP).status, 401);
    assert_eq!(with_token(&service, "/v1/check", next).status, 200);
    let accepted = r#"tollgate_requests_total{token="shop-next",result="accepted"}"#;
    assert_eq!(metric(&service, accepted).as_deref(), Some("2"));
    assert_eq!(
        metric(
            &service,
            r#"tollgate_requests_total{token="shop",result="accepted"}"#
        ),
        None
    );

    service.rewrite_config(LIMITS);
    let reloaded = reload().text();
    let status = reverse_proxy::get(service.admin, "/admin/status", &[]).text();
    let warning = "a reload has removed all tokens";
    for shown in [&reloaded, &status, &service.log()] {
        assert!(shown.contains(warning), "{shown}");
    }
    let warnings = metric(&service, "tollgate_warnings");
    assert_eq!(warnings.as_deref(), Some("1"));
}

#[test]
fn names_are_logged_and_secrets_never_appear() {
    let service = start(&[], &[]);
    let mut seen = String::new();
    for token in [SHOP, OPS, "wrong-secret-0123456789"] {
        for path in ["/v1/check", "/v1/refund"] {
            seen += &with_token(&service, path, token).text();
        }
    }
    for path in ["/metrics", "/admin/status", "/admin/limits"] {
        seen += &reverse_proxy::get(service.admin, path, &[]).text();
    }
    let config = service.config_path().display().to_string();
    for command in [
        &["validate", &config][..],
        &["explain", "-c", &config, "-a", "client_ip=::1"],
    ] {
        let output = tollgate(command, &[("SHOP", SHOP)]);
        seen += &stderr(&output);
        seen += &String::from_utf8_lossy(&output.stdout);
    }

    service.wait_for_log("rejected a request without a valid token");
    wait::until_true(PATIENCE, "the refusal to be logged", || {
        service.log().contains(r#""token":"shop""#) && service.log().contains("refund")
    });
    seen += &service.log();
    for secret in ["-secret-", OPS_HASH] {
        assert!(!seen.contains(secret), "{seen}");
    }
}

#[test]
fn a_token_that_allows_it_resets_keys_on_the_admin_port() {
    let admin = "admin-secret-0123456789";
    let service = start(&[], &[("TOLLGATE_ADMIN_TOKEN", admin)]);
    let path = "/admin/keys?limit=all&client_ip=203.0.113.7";
    let send = |method: &str, token: &str| {
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", authorization.as_str())];
        reverse_proxy::send(service.admin, method, path, &headers, b"")
    };
    assert_eq!(send("DELETE", admin).status, 200);
    assert_eq!(send("DELETE", OPS).status, 200);
    assert_eq!(send("GET", OPS).status, 401);
    assert_eq!(send("DELETE", "wrong-secret-0123456789").status, 401);
    let refused = send("DELETE", SHOP);
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("`shop`"), "{}", refused.text());

    let url = format!("http://{}", service.admin);
    let reset = [
        "keys",
        "reset",
        "--admin",
        &url,
        "-l",
        "all",
        "-a",
        "client_ip=203.0.113.7",
    ];
    let output = tollgate(&reset, &[("TOLLGATE_TOKEN", OPS)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn commands_send_the_token_of_the_environment() {
    let service = start(&[], &[]);
    let url = format!("http://{}", service.http);
    let check = ["check", "--url", &url, "-a", "client_ip=203.0.113.7"];
    let load = [
        "load",
        "--url",
        &url,
        "-r",
        "50",
        "-d",
        "200ms",
        "--retry-for",
        "0s",
    ];
    for command in [&check[..], &load] {
        let output = tollgate(command, &[("TOLLGATE_TOKEN", SHOP)]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let output = tollgate(command, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("missing token"),
            "{}",
            stderr(&output)
        );
    }
}

/// A token of spaces could be sent by accident.
#[test]
fn weak_admin_tokens_are_refused_at_the_start() {
    for (token, expected) in [
        ("                    ", "without spaces"),
        ("short", "expected at least 16"),
        ("twenty characters \u{e4}\u{f6}\u{fc}", "printable ASCII"),
    ] {
        let ports = [
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ];
        let serve = [&["serve"][..], &ports].concat();
        let output = tollgate(&serve, &[("TOLLGATE_ADMIN_TOKEN", token)]);
        assert_eq!(output.status.code(), Some(2), "{token:?}");
        let found = stderr(&output);
        assert!(
            found.contains("TOLLGATE_ADMIN_TOKEN") && found.contains(expected),
            "{found}"
        );
    }
}

#[test]
fn open_ports_are_announced_once_at_the_start() {
    const OPEN: &str = "other machines can use the data ports";
    let service = Tollgate::with(LIMITS, &["--http", "0.0.0.0:0"], &[]);
    service.wait_for_log(OPEN);
    let log = service.log();
    let line = log
        .lines()
        .find(|line| line.contains(OPEN))
        .expect("it was logged");
    assert!(
        line.contains("server.tls") && line.contains("server.tokens") && line.contains("http ("),
        "{line}"
    );
    assert!(!line.contains("grpc ("), "{line}");
    assert_eq!(log.matches(OPEN).count(), 1);
}
