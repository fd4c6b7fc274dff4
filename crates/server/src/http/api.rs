//! The decision API: check, peek, refund, release.

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;
use tollgate::store::Intent;

use super::body::{self, BodyLimits, BodyText, CheckBody, ReleaseBody};
use super::error::ApiError;
use super::respond::{self, Body, json};
use crate::gate::{ActiveConfig, CheckOptions, Gate};
use crate::listen::ClientConnection;

pub(super) async fn check(
    gate: &Gate,
    active: &ActiveConfig,
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
) -> Result<Response<Body>, ApiError> {
    decide(gate, active, request, connection, Intent::Spend).await
}

pub(super) async fn peek(
    gate: &Gate,
    active: &ActiveConfig,
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
) -> Result<Response<Body>, ApiError> {
    decide(gate, active, request, connection, Intent::Peek).await
}

async fn decide(
    gate: &Gate,
    active: &ActiveConfig,
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
    intent: Intent,
) -> Result<Response<Body>, ApiError> {
    let bytes = body::read(request, connection, body_limits(active)).await?;
    let _slot = connection.try_slot().ok_or_else(ApiError::overloaded)?;

    let body = CheckBody::decode(&bytes)?;

    let limits = body.limit_names();
    let options = CheckOptions {
        limits: limits.as_deref(),
        cost: body.cost,
        intent,
    };
    let decision = gate.decide(active, &body.attributes, options).await?;

    let now = gate.now();
    Ok(respond::decision(&decision, active.config.headers, now))
}

pub(super) async fn refund(
    gate: &Gate,
    active: &ActiveConfig,
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
) -> Result<Response<Body>, ApiError> {
    let bytes = body::read(request, connection, body_limits(active)).await?;
    let _slot = connection.try_slot().ok_or_else(ApiError::overloaded)?;

    let body = CheckBody::decode(&bytes)?;

    let limits = body.limit_names();
    let options = CheckOptions {
        limits: limits.as_deref(),
        cost: body.cost,
        intent: Intent::Spend,
    };
    gate.refund(active, &body.attributes, options).await?;

    Ok(json(StatusCode::OK, r#"{"refunded":true}"#))
}

pub(super) async fn release(
    gate: &Gate,
    active: &ActiveConfig,
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
) -> Result<Response<Body>, ApiError> {
    let bytes = body::read(request, connection, body_limits(active)).await?;
    let _slot = connection.try_slot().ok_or_else(ApiError::overloaded)?;

    let body: ReleaseBody<'_> = body::decode(&bytes)?;

    let permit = gate.open_permit(&body.permit.0)?;
    let was_held = gate.release(&permit).await?;

    let body = if was_held {
        r#"{"released":true}"#
    } else {
        r#"{"released":false}"#
    };
    Ok(json(StatusCode::OK, body))
}

fn body_limits(active: &ActiveConfig) -> BodyLimits {
    let server = &active.config.server;
    BodyLimits {
        bytes_max: server.body_max,
        timeout: server.header_timeout,
    }
}

impl<'b> CheckBody<'b> {
    fn decode(bytes: &'b [u8]) -> Result<Self, ApiError> {
        let body: Self = body::decode(bytes)?;
        match &body.limits {
            Some(limits) if limits.is_empty() => Err(ApiError::unprocessable(
                "no-limits",
                "`limits` is empty: leave it out to check every limit whose conditions match",
            )),
            _ => Ok(body),
        }
    }

    fn limit_names(&self) -> Option<SmallVec<[Cow<'_, str>; 4]>> {
        let limits = self.limits.as_ref()?;
        Some(
            limits
                .iter()
                .map(|BodyText(name)| Cow::Borrowed(&**name))
                .collect(),
        )
    }
}
