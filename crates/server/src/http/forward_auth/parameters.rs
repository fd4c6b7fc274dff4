//! What a proxy is told to ask with: which proxy it is, and which status a refusal has.

use hyper::Request;

use super::super::error::ApiError;
use super::super::route::FORWARD_AUTH;

/// How a proxy describes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proxy {
    /// `X-Original-URI`, `X-Original-Method`, as its configuration has it by custom.
    Nginx,
    /// `X-Forwarded-Uri`, `X-Forwarded-Method`, `X-Forwarded-Host`; Traefik and Caddy both.
    Traefik,
    /// The request itself, under a prefix.
    Envoy,
}

/// The parameters of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) proxy: Proxy,
    /// The status of a refusal, where the proxy understands only some.
    pub(super) deny_status: Option<u16>,
}

impl Parameters {
    pub(super) fn read<B>(query: &str, request: &Request<B>) -> Result<Self, ApiError> {
        // Under a prefix, the query is that of the request asked about.
        if request.uri().path().len() > FORWARD_AUTH.len() {
            return Self::without_doubt(request, None);
        }
        let (mut proxy, mut deny_status) = (None, None);
        for (name, value) in query.split('&').filter(|pair| !pair.is_empty()).map(split) {
            match name {
                "proxy" if proxy.is_none() => proxy = Some(named(value)?),
                "deny_status" if deny_status.is_none() => deny_status = Some(status(value)?),
                "proxy" | "deny_status" => return Err(twice(name)),
                other => return Err(unknown(other)),
            }
        }
        match proxy {
            Some(proxy) => Ok(Self { proxy, deny_status }),
            None => Self::without_doubt(request, deny_status),
        }
    }

    /// The proxy whose headers are there, if those of no other are.
    fn without_doubt<B>(request: &Request<B>, deny_status: Option<u16>) -> Result<Self, ApiError> {
        let has = |names: &[&str]| {
            names
                .iter()
                .any(|name| request.headers().contains_key(*name))
        };
        let signs = [
            (Proxy::Nginx, has(&["x-original-uri", "x-original-method"])),
            (
                Proxy::Traefik,
                has(&["x-forwarded-uri", "x-forwarded-method"]),
            ),
            (
                Proxy::Envoy,
                request.uri().path().len() > FORWARD_AUTH.len(),
            ),
        ];
        let mut found = signs
            .iter()
            .filter(|(_, is_there)| *is_there)
            .map(|(proxy, _)| *proxy);
        match (found.next(), found.next()) {
            (Some(proxy), None) => Ok(Self { proxy, deny_status }),
            (None, _) => Err(ApiError::malformed(
                "no-description",
                "nothing says which request this is about; send X-Original-URI and X-Original-Method (nginx), \
                 X-Forwarded-Uri and X-Forwarded-Method (Traefik, Caddy), or the path after /v1/forward-auth (Envoy)",
            )),
            (Some(_), Some(_)) => Err(ApiError::malformed(
                "two-descriptions",
                "the headers of more than one proxy are there, and a client may have sent some of them; \
                 say which proxy asks, as in /v1/forward-auth?proxy=nginx (or traefik, caddy, envoy)",
            )),
        }
    }
}

fn split(pair: &str) -> (&str, &str) {
    pair.split_once('=').unwrap_or((pair, ""))
}

fn named(value: &str) -> Result<Proxy, ApiError> {
    match value {
        "nginx" => Ok(Proxy::Nginx),
        "traefik" | "caddy" => Ok(Proxy::Traefik),
        "envoy" => Ok(Proxy::Envoy),
        other => {
            let other: String = other.chars().take(40).collect();
            let detail = format!("proxy is {other:?}; it must be nginx, traefik, caddy or envoy");
            Err(ApiError::malformed("unknown-proxy", detail))
        }
    }
}

fn status(value: &str) -> Result<u16, ApiError> {
    // Not 500 and above: to a proxy that would be a fault of this service, to be tried again
    // elsewhere. The sign that numbers may begin with is none of a status.
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let found = value
        .parse()
        .ok()
        .filter(|status| is_number && (400..=499).contains(status));
    found.ok_or_else(|| {
        let value: String = value.chars().take(40).collect();
        let detail = format!("deny_status is {value:?}; it must be a number from 400 to 499");
        ApiError::malformed("bad-deny-status", detail)
    })
}

fn twice(name: &str) -> ApiError {
    ApiError::malformed(
        "repeated-parameter",
        format!("the parameter {name} is there more than once; give it once"),
    )
}

fn unknown(name: &str) -> ApiError {
    let name: String = name.chars().take(40).collect();
    let detail = format!("there is no parameter {name:?}; there are proxy and deny_status");
    ApiError::malformed("unknown-parameter", detail)
}
