//! The decision API.

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use smallvec::SmallVec;
use std::borrow::Cow;
use tollgate::store::Intent;

use super::body::{self, Bounds, CheckBody, ReleaseBody, Text};
use super::error::ApiError;
use super::respond::{self, Body, json};
use crate::gate::{ActiveConfig, CheckOptions, Gate, PermitToken};

pub(super) async fn check(
    gate: &Gate,
    request: &mut Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    decide(gate, request, Intent::Spend).await
}

pub(super) async fn peek(
    gate: &Gate,
    request: &mut Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    decide(gate, request, Intent::Peek).await
}

async fn decide(
    gate: &Gate,
    request: &mut Request<Incoming>,
    intent: Intent,
) -> Result<Response<Body>, ApiError> {
    let running = gate.active();
    let bytes = body::read(request, bounds(&running)).await?;
    let asked = CheckBody::decode(&bytes)?;
    let limits = asked.limit_names();
    let question = CheckOptions {
        limits: limits.as_deref(),
        cost: asked.cost,
        intent,
    };
    let decided = gate.decide(&running, &asked.attributes, question).await?;
    Ok(respond::decided(
        &decided,
        running.config.headers,
        gate.now(),
    ))
}

pub(super) async fn refund(
    gate: &Gate,
    request: &mut Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    let running = gate.active();
    let bytes = body::read(request, bounds(&running)).await?;
    let asked = CheckBody::decode(&bytes)?;
    let limits = asked.limit_names();
    let question = CheckOptions {
        limits: limits.as_deref(),
        cost: asked.cost,
        intent: Intent::Spend,
    };
    gate.refund(&running, &asked.attributes, question).await?;
    Ok(json(StatusCode::OK, r#"{"refunded":true}"#))
}

pub(super) async fn release(
    gate: &Gate,
    request: &mut Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    let bytes = body::read(request, bounds(&gate.active())).await?;
    let asked: ReleaseBody<'_> = body::decode(&bytes)?;
    let was_held = gate.release(&PermitToken::parse(&asked.permit.0)?).await?;
    Ok(json(
        StatusCode::OK,
        if was_held {
            r#"{"released":true}"#
        } else {
            r#"{"released":false}"#
        },
    ))
}

fn bounds(running: &ActiveConfig) -> Bounds {
    let server = &running.config.server;
    Bounds {
        bytes_max: server.body_max,
        timeout: server.header_timeout,
    }
}

impl<'b> CheckBody<'b> {
    fn decode(bytes: &'b [u8]) -> Result<Self, ApiError> {
        let body: Self = body::decode(bytes)?;
        match &body.limits {
            Some(limits) if limits.is_empty() => Err(ApiError::unfit(
                "no-limits",
                "`limits` is empty; leave it out to ask every limit whose conditions hold",
            )),
            _ => Ok(body),
        }
    }

    fn limit_names(&self) -> Option<SmallVec<[Cow<'_, str>; 4]>> {
        let limits = self.limits.as_ref()?;
        Some(
            limits
                .iter()
                .map(|Text(name)| Cow::Borrowed(&**name))
                .collect(),
        )
    }
}
