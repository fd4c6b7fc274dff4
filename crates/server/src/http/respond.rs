//! Responses with a JSON body, to errors and to denied requests.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Response, StatusCode};
use tollgate::LimitOutcome;
use tollgate_gate::api::ApiError;
use tollgate_http::{DenialTemplate, Problem};

pub(crate) type Body = Full<Bytes>;

/// The status of a denial whose response has another one, chosen with `deny_status`.
const ORIGINAL_STATUS: HeaderName = HeaderName::from_static("x-ratelimit-status");
/// The most header fields of a response, including those that hyper adds.
const FIELDS_MAX: usize = 13;
/// The value of `Cache-Control` for what changes with every request.
pub(super) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
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
    headers.insert(CACHE_CONTROL, NO_STORE);
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
