//! The proxies with their files from `deploy/`.

use std::net::SocketAddr;

use testkit::reverse_proxy::Proxy;

use super::{API_KEY, COOKIE, PATHS, QUERY, Subject, TOKEN};
use crate::deploy::{put, read};
use crate::harness::Tollgate;

/// A file of `deploy/` that puts a proxy before an application.
#[derive(Clone, Copy, Debug)]
pub(super) enum ProxyFile {
    Nginx,
    /// With `proxy_pass http://app/;`: nginx passes on the path that it has decoded and normalised.
    NginxDecoded,
    Caddy,
    EnvoyForwardAuth,
    EnvoyRateLimit,
}

impl ProxyFile {
    pub(super) const ALL: [Self; 5] = [
        Self::Nginx,
        Self::NginxDecoded,
        Self::Caddy,
        Self::EnvoyForwardAuth,
        Self::EnvoyRateLimit,
    ];

    /// What a limit can use behind this proxy. A descriptor of the shipped file has neither cookies
    /// nor a token, and its path has the query.
    pub(super) fn subjects(self) -> &'static [Subject] {
        match self {
            Self::EnvoyRateLimit => &[PATHS, API_KEY],
            _ => &[PATHS, COOKIE, API_KEY, TOKEN, QUERY],
        }
    }

    pub(super) fn start(self, service: &Tollgate, app: SocketAddr) -> Proxy {
        match self {
            Self::Nginx => nginx("proxy_pass http://app;"),
            Self::NginxDecoded => nginx("proxy_pass http://app/;"),
            Self::Caddy => caddy(),
            Self::EnvoyForwardAuth => {
                let text = put(
                    &read("envoy/ext_authz.yaml"),
                    "- { exact: x-api-key }",
                    "- { exact: x-api-key }\n                - { exact: cookie }",
                );
                envoy(&text, "port_value: 8080")
            }
            Self::EnvoyRateLimit => envoy(&read("envoy/ratelimit.yaml"), "port_value: 8081"),
        }
        .set("tollgate", service.http)
        .set("http_port", service.http.port())
        .set("grpc_port", service.grpc.port())
        .set("app", app)
        .set("app_port", app.port())
        .start()
    }
}

fn nginx(pass: &str) -> testkit::reverse_proxy::Builder {
    let config = read("nginx/tollgate.conf");
    let config = put(&config, "listen 80;", "listen 127.0.0.1:@port@;");
    let config = put(&config, "server 127.0.0.1:8080;", "server @tollgate@;");
    let config = put(&config, "server 127.0.0.1:3000;", "server @app@;");
    // A busy machine must not look like an outage, in which requests pass.
    let config = put(
        &config,
        "proxy_connect_timeout 100ms;",
        "proxy_connect_timeout 20s;",
    );
    let config = put(
        &config,
        "proxy_read_timeout 500ms;",
        "proxy_read_timeout 20s;",
    );
    Proxy::nginx(put(&config, "proxy_pass http://app;", pass))
}

fn caddy() -> testkit::reverse_proxy::Builder {
    let config = put(&read("caddy/Caddyfile"), "http://:80 {", "http://:@port@ {");
    let config = put(&config, "127.0.0.1:8080 {", "@tollgate@ {");
    Proxy::caddy(put(
        &config,
        "reverse_proxy 127.0.0.1:3000",
        "reverse_proxy @app@",
    ))
}

fn envoy(shipped: &str, port: &str) -> testkit::reverse_proxy::Builder {
    let text = put(
        shipped,
        "0.0.0.0, port_value: 10000",
        "127.0.0.1, port_value: @port@",
    );
    let text = put(&text, "port_value: 8000", "port_value: @app_port@");
    let own = if port.ends_with("8080") {
        "port_value: @http_port@"
    } else {
        "port_value: @grpc_port@"
    };
    let text = put(&text, port, own);
    Proxy::envoy(put(&text, "timeout: 0.1s", "timeout: 20s"))
}
