//! The decision API over HTTP: reads the body, carries out the operation, encodes its answer.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use tollgate_gate::api::{self, ApiContext, ApiError, ApiOperation, JsonBody};
use tollgate_http::{Fields, PROBLEM_JSON};

use super::body::{self, BodyLimits};
use super::respond::{Body, NO_STORE, json};
use super::timing::ServerTiming;
use crate::listen::ClientConnection;

/// Answers one operation; without one, a batch of them.
pub(super) async fn handle(
    operation: Option<ApiOperation>,
    context: ApiContext<'_>,
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
) -> Result<Response<Body>, ApiError> {
    let ApiContext { gate, active, .. } = context;
    let mut timing = ServerTiming::start(gate, request.headers());
    let limits = BodyLimits {
        bytes_max: active.config.server.body_max,
        timeout: active.config.server.header_timeout,
    };
    let body = body::read(request, connection, limits).await?;
    timing.end_step("body");

    // The request has arrived completely.
    let _slot = connection.try_slot().ok_or_else(ApiError::overloaded)?;
    let answer = match operation {
        Some(operation) => operation.answer(context, JsonBody::new(&body)).await?,
        None => Box::pin(api::batch(context, &body)).await?,
    };
    timing.end_step("decide");

    let mut response = json(answer.status, answer.body.into_owned());
    let headers = response.headers_mut();
    if answer.is_problem {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    }
    // What is left changes with every request.
    if operation.is_none() || answer.decision.is_some() {
        headers.insert(CACHE_CONTROL, NO_STORE);
    }
    if let Some(decision) = &answer.decision {
        Fields::new(decision, active.config.headers, gate.now()).add_to(headers);
    }
    timing.add_to(headers);
    Ok(response)
}
