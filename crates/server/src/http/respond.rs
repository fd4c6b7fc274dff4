//! Encodes decisions and errors as HTTP responses.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Response, StatusCode};
use tollgate::{Decision, LimitOutcome, Micros};
use tollgate_gate::api::{Answer, ApiContext, ApiError, EncodedAnswer};
use tollgate_http::{DenialTemplate, EnabledFields, Fields, PROBLEM_JSON, Problem};

pub(crate) type Body = Full<Bytes>;

/// The status of a denial whose response has another one, chosen with `deny_status`.
const ORIGINAL_STATUS: HeaderName = HeaderName::from_static("x-ratelimit-status");
/// The most header fields of a response, including those that hyper adds.
const FIELDS_MAX: usize = 13;
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
pub(super) fn answer(answer: &Answer, context: ApiContext<'_>) -> Response<Body> {
    let EncodedAnswer {
        status,
        is_problem,
        body,
    } = answer.encode();

    let mut response = json(status, body.into_owned());
    let headers = response.headers_mut();
    if is_problem {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    }
    if let Some(decision) = answer.decision() {
        let fields = context.active.config.headers;
        add_fields(headers, decision, fields, context.gate.now());
    }
    response
}

/// The response to a batch, whose answers have statuses of their own.
pub(super) fn batch(answers: String) -> Response<Body> {
    let mut response = json(StatusCode::OK, answers);
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
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
