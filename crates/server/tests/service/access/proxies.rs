//! Real proxies reach data ports that require TLS and a token.

use testkit::reverse_proxy::{Proxy, Upstream};

use super::ServerCertificate;
use crate::deploy::{put, read};
use crate::harness::Tollgate;
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
