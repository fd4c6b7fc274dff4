//! The query parameters of forward-auth: which kind of proxy calls, and the status of a denial.

use hyper::{Request, StatusCode};

use tollgate_gate::api::ApiError;

/// The path of forward-auth; Envoy appends the path of the original request.
pub(crate) const FORWARD_AUTH: &str = "/v1/forward-auth";

/// The kind of proxy, which determines how it describes the original request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyKind {
    /// `X-Original-URI` and `X-Original-Method`, the names that nginx configurations use.
    Nginx,
    /// `X-Forwarded-Uri`, `X-Forwarded-Method` and `X-Forwarded-Host`: Traefik and Caddy.
    Traefik,
    /// The original request itself, with `/v1/forward-auth` in front of its path.
    Envoy,
}

/// The parameters of a forward-auth request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForwardAuthParameters {
    pub(super) proxy: ProxyKind,
    /// The status of a denial, for proxies that accept only certain statuses.
    pub(super) deny_status: Option<StatusCode>,
}

impl ForwardAuthParameters {
    pub(super) fn parse<B>(query: &str, request: &Request<B>) -> Result<Self, ApiError> {
        // With a path appended, the query belongs to the original request.
        if has_appended_path(request) {
            return Self::with_detected_proxy(request, None);
        }

        let (mut proxy, mut deny_status) = (None, None);
        for (name, value) in query.split('&').filter(|pair| !pair.is_empty()).map(split) {
            match name {
                "proxy" if proxy.is_none() => proxy = Some(parse_proxy(value)?),
                "deny_status" if deny_status.is_none() => deny_status = Some(parse_status(value)?),
                "proxy" | "deny_status" => return Err(duplicate_parameter(name)),
                other => return Err(unknown_parameter(other)),
            }
        }

        match proxy {
            Some(proxy) => Ok(Self { proxy, deny_status }),
            None => Self::with_detected_proxy(request, deny_status),
        }
    }

    /// Detects the kind of proxy by its headers. Fails if there are those of several kinds.
    fn with_detected_proxy<B>(
        request: &Request<B>,
        deny_status: Option<StatusCode>,
    ) -> Result<Self, ApiError> {
        let has_any = |names: &[&str]| {
            names
                .iter()
                .any(|name| request.headers().contains_key(*name))
        };
        let nginx = has_any(&["x-original-uri", "x-original-method"]);
        let traefik = has_any(&["x-forwarded-uri", "x-forwarded-method"]);
        let envoy = has_appended_path(request);

        let proxy = match (nginx, traefik, envoy) {
            (true, false, false) => ProxyKind::Nginx,
            (false, true, false) => ProxyKind::Traefik,
            (false, false, true) => ProxyKind::Envoy,
            (false, false, false) => {
                return Err(ApiError::bad_request(
                    "missing-original-request",
                    "the original request is missing; send X-Original-URI and X-Original-Method \
                     (nginx), X-Forwarded-Uri and X-Forwarded-Method (Traefik, Caddy), or its path \
                     after /v1/forward-auth (Envoy)",
                ));
            }
            _ => {
                return Err(ApiError::bad_request(
                    "conflicting-original-request",
                    "found the headers of more than one kind of proxy, some of which a client may \
                     have sent; name your proxy, as in /v1/forward-auth?proxy=nginx (or traefik, \
                     caddy, envoy)",
                ));
            }
        };
        Ok(Self { proxy, deny_status })
    }
}

fn has_appended_path<B>(request: &Request<B>) -> bool {
    request.uri().path().len() > FORWARD_AUTH.len()
}

fn split(pair: &str) -> (&str, &str) {
    pair.split_once('=').unwrap_or((pair, ""))
}

fn parse_proxy(value: &str) -> Result<ProxyKind, ApiError> {
    match value {
        "nginx" => Ok(ProxyKind::Nginx),
        "traefik" | "caddy" => Ok(ProxyKind::Traefik),
        "envoy" => Ok(ProxyKind::Envoy),
        other => {
            let other: String = other.chars().take(40).collect();
            let detail =
                format!("unknown proxy {other:?}; expected nginx, traefik, caddy or envoy");
            Err(ApiError::bad_request("unknown-proxy", detail))
        }
    }
}

fn parse_status(value: &str) -> Result<StatusCode, ApiError> {
    // At most 499: a proxy would take 5xx for a failure
    // of this service and might retry elsewhere.
    let status = StatusCode::from_bytes(value.as_bytes())
        .ok()
        .filter(StatusCode::is_client_error);

    status.ok_or_else(|| {
        let value: String = value.chars().take(40).collect();
        let detail = format!("deny_status is {value:?}; it must be a number from 400 to 499");
        ApiError::bad_request("bad-deny-status", detail)
    })
}

fn duplicate_parameter(name: &str) -> ApiError {
    ApiError::bad_request("duplicate-parameter", format!("duplicate parameter {name}"))
}

fn unknown_parameter(name: &str) -> ApiError {
    let name: String = name.chars().take(40).collect();
    let detail = format!("unknown parameter {name:?}; expected proxy or deny_status");
    ApiError::bad_request("unknown-parameter", detail)
}
