//! Real proxies reach data ports that require TLS and a token.

use testkit::reverse_proxy::{Proxy, Upstream};
use testkit::wait;

use super::{ServerCertificate, metric};
use crate::deploy::{self, put, read};
use crate::harness::{PATIENCE, Tollgate};
use crate::spoofing;

const TOKEN: &str = "proxy-secret-0123456789";

/// The configuration of the service, with limits that the tests exhaust.
fn config(certificate: &ServerCertificate) -> String {
    let tokens = format!("  tokens: [{{ name: proxy, token: {TOKEN} }}]\n");
    let config = put(&certificate.config(&tokens), "limit: 1000000", "limit: 2");
    format!("client_ip: {{ trusted_proxies: [\"127.0.0.0/8\"] }}\n{config}")
}

#[test]
fn nginx_verifies_the_service_and_sends_its_token() {
    let certificate = ServerCertificate::create();
    let (service, app) = (
        Tollgate::with_config(&config(&certificate)),
        Upstream::start(),
    );
    let start = |config: String| {
        Proxy::nginx(config)
            .set("tollgate", service.http)
            .set("app", app.addr())
            .start()
    };

    // As docs/security.md says.
    let encrypted =
        deploy::nginx_with_tls(&deploy::patient(&deploy::nginx()), &certificate.authority());
    let line = format!("proxy_set_header X-Tollgate-Token {TOKEN};\n");
    let protected = put(
        &encrypted,
        "proxy_ssl_verify on;",
        &format!("proxy_ssl_verify on;\n{line}"),
    );
    let nginx = start(protected);
    let login = |headers: &[(&str, &str)]| spoofing::login(nginx.addr(), headers).status;
    // The client's own headers neither help nor hurt.
    let own = [
        ("authorization", "Bearer of-the-client-0123456789"),
        ("x-tollgate-token", "of-the-client-0123456789"),
        ("origin", "https://elsewhere.example"),
    ];
    assert_eq!(login(&own), 200, "{}\n{}", nginx.log(), service.log());
    assert_eq!(login(&own), 200);
    assert_eq!(login(&own), 429);

    // A proxy without the token lets nothing pass.
    let nginx = start(encrypted);
    assert_eq!(spoofing::login(nginx.addr(), &[]).status, 401);
}

#[test]
fn caddy_verifies_the_service_and_sends_its_token() {
    let certificate = ServerCertificate::create();
    let (service, app) = (
        Tollgate::with_config(&config(&certificate)),
        Upstream::start(),
    );
    // As docs/security.md says.
    let config = deploy::caddy_with_tls(&deploy::caddy(), &certificate.authority());
    let token = format!("header_up X-Tollgate-Token {TOKEN}\n transport http {{");
    let config = put(&config, "transport http {", &token);
    let caddy = Proxy::caddy(config)
        .set("tollgate", service.http)
        .set("app", app.addr())
        .start();
    let login = || spoofing::login(caddy.addr(), &[("authorization", "Bearer of-the-client")]);
    assert_eq!(login().status, 200, "{}\n{}", caddy.log(), service.log());
    assert_eq!(login().status, 200);
    assert_eq!(login().status, 429);
}

#[test]
fn envoy_verifies_the_service_and_sends_its_token() {
    let certificate = ServerCertificate::create();
    let (service, app) = (
        Tollgate::with_config(&config(&certificate)),
        Upstream::start(),
    );
    let config = deploy::patient(&deploy::envoy(&read("envoy/ratelimit.yaml")));
    let config = put(
        &config,
        "failure_mode_deny: false",
        "failure_mode_deny: true",
    );

    // As docs/security.md says.
    let metadata = format!(
        "envoy_grpc: {{ cluster_name: tollgate }}\n                  \
         initial_metadata: [{{ key: authorization, value: \"Bearer {TOKEN}\" }}]\n"
    );
    let config = put(
        &config,
        "envoy_grpc: { cluster_name: tollgate }\n",
        &metadata,
    );
    let config = deploy::envoy_with_tls(&config, &certificate.authority());
    let envoy = Proxy::envoy(config)
        .set("app", app.addr().port())
        .set("tollgate", service.grpc.port())
        .start();

    let login = || spoofing::login(envoy.addr(), &[]);
    wait::until_true(PATIENCE, "Envoy to reach the service", || {
        login().status == 429
    });
    let limited = metric(
        &service,
        r#"tollgate_requests_total{token="proxy",result="accepted"}"#,
    );
    assert_eq!(limited.as_deref(), Some("3"), "{}", service.log());
}
