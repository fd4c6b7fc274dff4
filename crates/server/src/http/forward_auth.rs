//! Forward-auth: a proxy asks whether a request that it describes in headers may pass.
//!
//! The proxy's own headers are the only ones to believe, and every proxy has others. A client can
//! send those of the proxies that are not in use, so which proxy asks is either said
//! (`?proxy=nginx`) or must be beyond doubt.

mod original_request;
mod parameters;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, FORWARDED};
use hyper::{Request, Response, StatusCode};
use tollgate::headers::Problem;
use tollgate::store::Intent;

use self::original_request::Described;
use self::parameters::Parameters;
use super::error::ApiError;
use super::respond::{self, Body, json};
use crate::gate::{CheckOptions, Gate};

/// The answer to a proxy.
pub(super) async fn answer(
    gate: &Gate,
    request: &Request<Incoming>,
    peer: SocketAddr,
    untrusted: &Untrusted,
) -> Result<Response<Body>, ApiError> {
    let running = gate.active();
    let parameters = Parameters::read(request.uri().query().unwrap_or_default(), request)?;
    let client = running
        .selector
        .clients()
        .address(peer.ip(), request.headers());
    untrusted.notice(&running, request, peer);
    let described = Described::read(request, parameters, client)?;
    let question = CheckOptions {
        limits: None,
        cost: None,
        intent: Intent::Spend,
    };
    let decided = gate.decide(&running, &described, question).await?;
    let mut response = match Problem::denied(&decided.decision) {
        None => {
            let mut response = json(StatusCode::OK, "");
            response.headers_mut().remove(CONTENT_TYPE);
            response
        }
        Some(problem) => respond::denied(problem, parameters.deny_status),
    };
    respond::add_fields(
        response.headers_mut(),
        &decided.decision,
        running.config.headers,
        gate.now(),
    );
    if let Some(lease) = &decided.permit
        && let Ok(lease) = lease.to_text().parse()
    {
        response.headers_mut().insert("x-ratelimit-permit", lease);
    }
    Ok(response)
}

/// Whether someone was told that a proxy is not trusted.
#[derive(Debug, Default)]
pub(super) struct Untrusted {
    told: AtomicBool,
}

impl Untrusted {
    /// Says once that a proxy speaks for its clients and is not believed: then all of them are
    /// counted as one.
    fn notice(
        &self,
        running: &crate::gate::ActiveConfig,
        request: &Request<Incoming>,
        peer: SocketAddr,
    ) {
        let headers = request.headers();
        let speaks_for_others = ["x-forwarded-for", "x-real-ip"]
            .iter()
            .any(|name| headers.contains_key(*name))
            || headers.contains_key(FORWARDED);
        if speaks_for_others
            && !self.told.load(Relaxed)
            && !running.selector.clients().trusts(peer.ip())
            && !self.told.swap(true, Relaxed)
        {
            tracing::warn!(
                peer = %peer.ip(),
                "a proxy says whom it speaks for and is not trusted, so all its clients count as one; \
                 add it to client_ip.trusted_proxies if it is yours"
            );
        }
    }
}
