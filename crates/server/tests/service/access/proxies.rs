//! Real proxies reach data ports that require TLS and a token.

use testkit::reverse_proxy::{Proxy, Upstream};
use testkit::wait;

use super::{ServerCertificate, metric};
use crate::deploy::{put, read};
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
    let shipped = put(
        &read("nginx/tollgate.conf"),
        "listen 80;",
        "listen 127.0.0.1:@port@;",
    );
    let shipped = put(&shipped, "server 127.0.0.1:8080;", "server @tollgate@;");
    let shipped = put(&shipped, "server 127.0.0.1:3000;", "server @app@;");
    let start = |config: String| {
        Proxy::nginx(config)
            .set("tollgate", service.http)
            .set("app", app.addr())
            .start()
    };

    // As docs/security.md says.
    let ca = certificate.authority.certificate();
    let protected = put(
        &shipped,
        "proxy_pass http://tollgate/",
        &format!(
            "proxy_ssl_verify on;\n proxy_ssl_trusted_certificate {};\n \
             proxy_ssl_name localhost;\n proxy_set_header X-Tollgate-Token {TOKEN};\n \
             proxy_pass https://tollgate/",
            ca.display()
        ),
    );
    let nginx = start(protected.clone());
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
    let line = format!("proxy_set_header X-Tollgate-Token {TOKEN};");
    let nginx = start(put(&protected, &line, ""));
    assert_eq!(spoofing::login(nginx.addr(), &[]).status, 401);
}

#[test]
fn caddy_verifies_the_service_and_sends_its_token() {
    let certificate = ServerCertificate::create();
    let (service, app) = (
        Tollgate::with_config(&config(&certificate)),
        Upstream::start(),
    );
    let config = put(&read("caddy/Caddyfile"), "http://:80 {", "http://:@port@ {");
    let config = put(
        &config,
        "reverse_proxy 127.0.0.1:3000",
        "reverse_proxy @app@",
    );

    // As docs/security.md says.
    let ca = certificate.authority.certificate();
    let protected = format!(
        "reverse_proxy https://@tollgate@ {{\n header_up X-Tollgate-Token {TOKEN}\n \
         transport http {{\n tls_trusted_ca_certs {}\n }}\n",
        ca.display()
    );
    let config = put(&config, "reverse_proxy 127.0.0.1:8080 {", &protected);
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
    let config = read("envoy/ratelimit.yaml");
    let config = put(
        &config,
        "0.0.0.0, port_value: 10000",
        "127.0.0.1, port_value: @port@",
    );
    let config = put(&config, "port_value: 8000", "port_value: @app@");
    let config = put(&config, "port_value: 8081", "port_value: @tollgate@");
    let config = put(&config, "timeout: 0.1s", "timeout: 10s");
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
    let ca = certificate.authority.certificate();
    let socket = format!(
        "  - name: tollgate
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: localhost
        common_tls_context: {{ validation_context: {{ trusted_ca: {{ filename: {} }} }} }}
",
        ca.display()
    );
    let config = put(&config, "  - name: tollgate\n", &socket);
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
