//! The decision API: one operation for each request.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Request, Response};

use super::body::{self, BodyLimits, JsonBody};
use super::error::ApiError;
use super::operation::{ApiContext, ApiOperation};
use super::respond::{self, Body};
use super::timing::ServerTiming;
use crate::gate::ActiveConfig;
use crate::listen::ClientConnection;

/// Reads the body, carries out the operation and encodes its answer.
pub(super) async fn handle(
    operation: ApiOperation,
    context: ApiContext<'_>,
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
) -> Result<Response<Body>, ApiError> {
    let mut timing = ServerTiming::start(context.gate, request.headers());
    let bytes = body::read(request, connection, body_limits(context.active)).await?;
    timing.end_step("body");
    let _slot = connection.try_slot().ok_or_else(ApiError::overloaded)?;

    let answer = operation.answer(context, JsonBody::new(&bytes)).await?;
    timing.end_step("decide");

    let now = context.gate.now();
    let mut response = respond::answer(&answer, context.active.config.headers, now);
    timing.add_to(response.headers_mut());
    Ok(response)
}

pub(super) fn body_limits(active: &ActiveConfig) -> BodyLimits {
    let server = &active.config.server;
    BodyLimits {
        bytes_max: server.body_max,
        timeout: server.header_timeout,
    }
}
