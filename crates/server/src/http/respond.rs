//! Answers as HTTP responses.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Response, StatusCode};
use tollgate::headers::{DecisionBody, Fields, PROBLEM_JSON, Problem};
use tollgate::{Decision, Micros};

use super::error::ApiError;
use crate::gate::{GateDecision, PermitToken};

pub(crate) type Body = Full<Bytes>;

/// The status of a refusal that was given another one.
const TRUE_STATUS: HeaderName = HeaderName::from_static("x-ratelimit-status");
/// The header fields of an answer, with those that the server adds.
const FIELDS_MAX: usize = 12;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static(PROBLEM_JSON);

/// A body of JSON.
pub(crate) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    respond(status, JSON, body.into())
}

fn respond(status: StatusCode, kind: HeaderValue, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    // Room for everything a decision tells, so that the map is made once.
    *response.headers_mut() = HeaderMap::with_capacity(FIELDS_MAX);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// A fault as its response.
pub(crate) fn problem(fault: &ApiError) -> Response<Body> {
    // A struct of texts and numbers never fails to serialise.
    let body = serde_json::to_vec(fault).unwrap_or_default();
    let mut response = respond(fault.status, PROBLEM, body.into());
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(allow) = fault.allow {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    if let Some(seconds) = fault.retry_after_secs {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A decision with its body: 200, 429 or 503.
pub(super) fn decided(decided: &GateDecision, chosen: Fields, now: Micros) -> Response<Body> {
    let GateDecision {
        decision,
        permit: lease,
    } = decided;
    let lease = lease.as_ref().map(PermitToken::to_text);
    let mut response = if let Some(problem) = Problem::denied(decision) {
        denied(problem, None)
    } else {
        let mut answer = DecisionBody::new(decision);
        answer.permit = lease;
        json(StatusCode::OK, answer.to_json())
    };
    add_fields(response.headers_mut(), decision, chosen, now);
    response
}

/// A refusal with its body, under a status of the caller's choice if there is one. The true status
/// is then told beside it, so that a proxy which understands few of them can still pass it on.
pub(super) fn denied(mut problem: Problem<'_>, chosen: Option<u16>) -> Response<Body> {
    let true_status = problem.status;
    problem.status = chosen.unwrap_or(true_status);
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    let mut response = respond(status, PROBLEM, problem.to_json().into());
    if chosen.is_some() {
        response
            .headers_mut()
            .insert(TRUE_STATUS, HeaderValue::from(true_status));
    }
    response
}

/// The header fields that tell a client where it stands. They are true for a moment, so nobody may
/// keep them.
pub(super) fn add_fields(
    headers: &mut HeaderMap,
    decision: &Decision,
    chosen: Fields,
    now: Micros,
) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    tollgate_tower::add_fields(headers, decision, chosen, now);
}
