//! Encodes decisions and errors as HTTP responses.

use std::borrow::Cow;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Response, StatusCode};
use tollgate::{Decision, LimitOutcome, Micros};
use tollgate_http::{DecisionBody, DenialTemplate, EnabledFields, Fields, Problem};

use super::error::ApiError;
use super::operation::Answer;
use crate::gate::{GateDecision, GateInspection};

pub(crate) type Body = Full<Bytes>;

/// The status of a denial whose response has another one, chosen with `deny_status`.
const ORIGINAL_STATUS: HeaderName = HeaderName::from_static("x-ratelimit-status");
/// The most header fields of a response, including those that hyper adds.
const FIELDS_MAX: usize = 13;
/// The space that an answer of a batch usually takes, in bytes.
const BATCH_ANSWER_CAPACITY: usize = 256;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A response with a JSON body.
pub(crate) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    // With capacity for all fields of a decision, so that the map is allocated once.
    *response.headers_mut() = HeaderMap::with_capacity(FIELDS_MAX);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// The response to a request that failed.
pub(crate) fn problem(error: &ApiError) -> Response<Body> {
    let mut response = error.problem().to_response().map(Full::new);

    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(allow) = error.allow {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    if let Some(seconds) = error.retry_after_secs {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if error.status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// The response to an operation.
pub(super) fn answer(answer: &Answer, fields: EnabledFields, now: Micros) -> Response<Body> {
    match answer {
        Answer::Decision(answer) => decision(answer, fields, now),
        Answer::Counted(answer) => counted(answer, fields, now),
        Answer::Inspection(answer) => inspection(answer, fields, now),
        Answer::Done(text) => json(StatusCode::OK, text.clone().into_owned()),
    }
}

/// The response to a check: 200, 429 or 503.
fn decision(decision: &GateDecision, fields: EnabledFields, now: Micros) -> Response<Body> {
    let mut response = match Problem::denied(&decision.decision) {
        Some(problem) => denied(problem, None, None),
        None => json(StatusCode::OK, allowed_body(decision)),
    };

    add_fields(response.headers_mut(), &decision.decision, fields, now);
    response
}

/// The response to a check that only counts: 200 whether it fitted or not, since it was charged. If
/// the store was unavailable and the policy is to deny, it was not charged: 503.
fn counted(decision: &GateDecision, fields: EnabledFields, now: Micros) -> Response<Body> {
    let mut response = match unavailable(decision) {
        Some(problem) => denied(problem, None, None),
        None => json(StatusCode::OK, allowed_body(decision)),
    };

    add_fields(response.headers_mut(), &decision.decision, fields, now);
    response
}

/// The problem of a decision that was not made, because the store was unavailable.
fn unavailable(decision: &GateDecision) -> Option<Problem<'_>> {
    let problem = Problem::denied(&decision.decision);
    problem.filter(|problem| problem.status == StatusCode::SERVICE_UNAVAILABLE)
}

/// The response to a peek: 200, 429 or 503.
fn inspection(answer: &GateInspection, fields: EnabledFields, now: Micros) -> Response<Body> {
    let mut response = match denied_peek(answer) {
        Some(problem) => denied(problem, None, None),
        None => json(StatusCode::OK, allowed_peek(answer)),
    };

    add_fields(response.headers_mut(), &answer.decision, fields, now);
    response
}

/// The problem of a peek that would be denied.
fn denied_peek(GateInspection { decision, counters }: &GateInspection) -> Option<Problem<'_>> {
    let mut problem = Problem::denied(decision)?;
    if let Some(body) = &mut problem.decision {
        body.add_counters(counters);
    }
    Some(problem)
}

/// The body of a peek that would be allowed.
fn allowed_peek(GateInspection { decision, counters }: &GateInspection) -> String {
    let mut body = DecisionBody::new(decision);
    body.add_counters(counters);
    body.to_json()
}

/// The body of a request that was charged.
fn allowed_body(decision: &GateDecision) -> String {
    let mut body = DecisionBody::new(&decision.decision);
    body.permit.clone_from(&decision.permit);
    body.reservation.clone_from(&decision.reservation);
    body.to_json()
}

/// The response to a batch: the statuses and bodies of its requests, without their header fields.
pub(super) fn batch(answers: &[Result<Answer, ApiError>]) -> Response<Body> {
    let mut text = String::with_capacity(BATCH_ANSWER_CAPACITY * answers.len());
    text.push_str("{\"answers\":");
    let mut separator = '[';
    for answer in answers {
        let (status, body) = batch_answer(answer);
        text.push(separator);
        text.extend(["{\"status\":", status.as_str(), ",\"body\":", &body, "}"]);
        separator = ',';
    }
    text.push_str("]}");

    let mut response = json(StatusCode::OK, text);
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
}

fn batch_answer(answer: &Result<Answer, ApiError>) -> (StatusCode, Cow<'static, str>) {
    match answer {
        Ok(Answer::Decision(decision)) => match Problem::denied(&decision.decision) {
            Some(problem) => (problem.status, problem.to_json().into()),
            None => (StatusCode::OK, allowed_body(decision).into()),
        },
        Ok(Answer::Inspection(inspection)) => match denied_peek(inspection) {
            Some(problem) => (problem.status, problem.to_json().into()),
            None => (StatusCode::OK, allowed_peek(inspection).into()),
        },
        Ok(Answer::Counted(decision)) => match unavailable(decision) {
            Some(problem) => (problem.status, problem.to_json().into()),
            None => (StatusCode::OK, allowed_body(decision).into()),
        },
        Ok(Answer::Done(text)) => (StatusCode::OK, text.clone()),
        Err(error) => (error.status, error.problem().to_json().into()),
    }
}

/// The response to a denied request, with another status if one is given. The original status then
/// goes into a header, so that a proxy that accepts only certain statuses can restore it.
///
/// A template with the limit that denied replaces the body.
pub(super) fn denied(
    mut problem: Problem<'_>,
    deny_status: Option<StatusCode>,
    body: Option<(&DenialTemplate, Option<&LimitOutcome>)>,
) -> Response<Body> {
    let original_status = problem.status;
    problem.status = deny_status.unwrap_or(original_status);

    let response = match body {
        Some((template, limit)) => template.to_response(&problem, limit),
        None => problem.to_response(),
    };
    let mut response = response.map(Full::new);
    if deny_status.is_some() {
        response
            .headers_mut()
            .insert(ORIGINAL_STATUS, HeaderValue::from(original_status.as_u16()));
    }
    response
}

/// Adds the rate limit headers. They must not be cached: they change with every request.
pub(super) fn add_fields(
    headers: &mut HeaderMap,
    decision: &Decision,
    fields: EnabledFields,
    now: Micros,
) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Fields::new(decision, fields, now).add_to(headers);
}
