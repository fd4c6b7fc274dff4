//! The decision API over HTTP: reads the body, carries out the operation, encodes its answer.

use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

use tollgate_gate::api::{self, ApiContext, ApiError, ApiOperation, JsonBody};

use super::body::{self, BodyLimits};
use super::respond::{self, Body};
use super::timing::ServerTiming;
use crate::listen::{ClientConnection, RequestSlot};

/// One operation.
pub(super) async fn handle(
    operation: ApiOperation,
    context: ApiContext<'_>,
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
) -> Result<Response<Body>, ApiError> {
    let mut timing = ServerTiming::start(context.gate, request.headers());
    let (bytes, _slot) = receive(context, request, connection, &mut timing).await?;

    let answer = operation.answer(context, JsonBody::new(&bytes)).await?;
    timing.end_step("decide");

    let mut response = respond::answer(&answer, context);
    timing.add_to(response.headers_mut());
    Ok(response)
}

/// Many operations.
pub(super) async fn handle_batch(
    context: ApiContext<'_>,
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
) -> Result<Response<Body>, ApiError> {
    let mut timing = ServerTiming::start(context.gate, request.headers());
    let (bytes, _slot) = receive(context, request, connection, &mut timing).await?;

    let answers = api::batch(context, &bytes).await?;
    timing.end_step("decide");

    let mut response = respond::batch(answers);
    timing.add_to(response.headers_mut());
    Ok(response)
}

/// Reads the body, and then takes a slot for the request.
async fn receive<'c>(
    context: ApiContext<'_>,
    request: &mut Request<Incoming>,
    connection: &'c Arc<ClientConnection>,
    timing: &mut ServerTiming<'_>,
) -> Result<(Bytes, RequestSlot<'c>), ApiError> {
    let server = &context.active.config.server;
    let limits = BodyLimits {
        bytes_max: server.body_max,
        timeout: server.header_timeout,
    };

    let bytes = body::read(request, connection, limits).await?;
    timing.end_step("body");
    let slot = connection.try_slot().ok_or_else(ApiError::overloaded)?;
    Ok((bytes, slot))
}
