//! The proxies with their files from `deploy/`.

use std::net::SocketAddr;

use testkit::reverse_proxy::{Builder, Proxy};

use super::{API_KEY, COOKIE, PATHS, QUERY, Subject, TOKEN};
use crate::deploy::{self, put, read};
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
        let (http, grpc) = (service.http, service.grpc);
        let (proxy, tollgate, app) = match self {
            Self::Nginx => (
                nginx("proxy_pass http://app;"),
                http.to_string(),
                app.to_string(),
            ),
            Self::NginxDecoded => (
                nginx("proxy_pass http://app/;"),
                http.to_string(),
                app.to_string(),
            ),
            Self::Caddy => (
                Proxy::caddy(deploy::caddy()),
                http.to_string(),
                app.to_string(),
            ),
            Self::EnvoyForwardAuth => {
                let text = put(
                    &read("envoy/ext_authz.yaml"),
                    "- { exact: x-api-key }",
                    "- { exact: x-api-key }\n                - { exact: cookie }",
                );
                (
                    envoy(&text),
                    http.port().to_string(),
                    app.port().to_string(),
                )
            }
            Self::EnvoyRateLimit => (
                envoy(&read("envoy/ratelimit.yaml")),
                grpc.port().to_string(),
                app.port().to_string(),
            ),
        };
        proxy.set("tollgate", tollgate).set("app", app).start()
    }
}

fn nginx(pass: &str) -> Builder {
    // A busy machine must not look like an outage, in which requests pass.
    let config = deploy::patient(&deploy::nginx());
    Proxy::nginx(put(&config, "proxy_pass http://app;", pass))
}

fn envoy(shipped: &str) -> Builder {
    Proxy::envoy(deploy::patient(&deploy::envoy(shipped)))
}
