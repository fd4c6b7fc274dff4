//! Forward-auth: a reverse proxy asks whether the request it describes in headers is allowed.
//!
//! Only the headers that the proxy itself sets can be trusted, and each kind of proxy uses other
//! names. A client can send the headers of a proxy that is not in use. So the kind of proxy is
//! either given (`?proxy=nginx`) or must be unambiguous.

mod original_request;
mod parameters;
mod warnings;

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use hyper::{Request, Response, StatusCode};
use tollgate::store::Intent;
use tollgate_gate::api::{ApiContext, ApiError};
use tollgate_gate::{CheckOptions, Gate, GateDecision, PERMIT_HEADER_MAX};
use tollgate_http::{Fields, Problem};

use self::original_request::OriginalRequest;
pub(super) use self::parameters::FORWARD_AUTH;
use self::parameters::ForwardAuthParameters;
pub(super) use self::warnings::ForwardAuthWarnings;
use super::respond::{Body, NO_STORE, denied, json};
use crate::listen::ClientConnection;

/// Decides the request that a proxy describes, and responds to the proxy.
pub(super) async fn handle(
    context: ApiContext<'_>,
    request: &Request<Incoming>,
    connection: &ClientConnection,
    warnings: &ForwardAuthWarnings,
) -> Result<Response<Body>, ApiError> {
    let ApiContext { gate, active, .. } = context;
    let peer = connection.peer;
    let query = request.uri().query().unwrap_or_default();
    let parameters = ForwardAuthParameters::parse(query, request)?;
    let Some(_slot) = connection.try_slot() else {
        return Ok(deny(gate, &ApiError::overloaded(), parameters.deny_status));
    };
    let clients = active.selector.clients();
    let client = clients.address(peer.ip(), request.headers());
    warnings.check_proxy(active, request, peer);
    active.note_forward_auth();
    let original = OriginalRequest::from_headers(request, parameters, client)?;

    let options = CheckOptions {
        limits: None,
        cost: None,
        intent: Intent::Spend,
        origin: context.origin,
    };
    match gate.decide(active, &original, options).await {
        Ok(decided) => Ok(respond(context, decided, parameters.deny_status)),
        Err(error) => {
            warnings.note_refusal(&error);
            refusal(gate, error.into(), parameters.deny_status)
        }
    }
}

/// The response to a request that was decided: the body of a denial, or none.
fn respond(
    context: ApiContext<'_>,
    decided: GateDecision,
    deny_status: Option<StatusCode>,
) -> Response<Body> {
    let config = &context.active.config;
    let decision = &decided.decision;
    let mut response = match Problem::denied(decision) {
        None => {
            let mut response = json(StatusCode::OK, "");
            response.headers_mut().remove(CONTENT_TYPE);
            response
        }
        Some(mut problem) => {
            if let Some(block) = decided.block {
                problem.status = block.status();
            }
            let template = config.denial.as_ref();
            let body = template.map(|template| (template, decision.denied_by()));
            denied(problem, deny_status, body)
        }
    };

    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, NO_STORE);
    Fields::new(decision, config.headers, context.gate.now()).add_to(headers);
    if let Some(permit) = decided.permit
        && permit.len() <= PERMIT_HEADER_MAX
        && let Ok(permit) = permit.parse()
    {
        headers.insert("x-ratelimit-permit", permit);
    }
    response
}

/// Refuses a request that cannot be decided because of what it has or lacks. That is a denial, too:
/// a proxy could take another status for a failure of this service, and let the request pass.
fn refusal(
    gate: &Gate,
    error: ApiError,
    deny_status: Option<StatusCode>,
) -> Result<Response<Body>, ApiError> {
    if !error.status.is_client_error() {
        return Err(error);
    }

    Ok(deny(gate, &error, deny_status))
}

/// Counts an error, and denies the request. So is a request that this service sheds: the proxy must
/// not take its overload for an outage.
fn deny(gate: &Gate, error: &ApiError, deny_status: Option<StatusCode>) -> Response<Body> {
    gate.metrics().count_error(error.code);
    let mut response = denied(error.problem(), deny_status, None);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, NO_STORE);
    if let Some(secs) = error.retry_after_secs {
        headers.insert(RETRY_AFTER, secs.into());
    }
    response
}
