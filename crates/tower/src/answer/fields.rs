//! The header fields that tell a client where it stands, as types of an HTTP library.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{Entry, HeaderName, HeaderValue, RETRY_AFTER};
use tollgate::headers::{Field, Fields, VALUES_USUAL, write_fields};
use tollgate::{Decision, Micros};

/// The fields of a pass.
const FIELDS_USUAL: usize = 5;

/// The names as HTTP libraries want them, checked when this is compiled and not at every request.
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const X_FALLBACK: HeaderName = HeaderName::from_static("x-ratelimit-fallback");

/// Adds the fields of a decision to those of a response. Where another layer has told of its limits
/// already, the lists of both stand there, and of the fields that have room for one limit those of
/// the tighter.
///
/// ```
/// use std::time::Duration;
/// use http::HeaderMap;
/// use tollgate::{Limit, Limiter, headers::Fields};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
/// let decision = limiter.check("api", "ann").now_or_never()?;
/// let mut headers = HeaderMap::new();
/// tollgate_tower::add_fields(&mut headers, &decision, Fields::default(), limiter.clock().now());
/// assert_eq!(headers["ratelimit"], r#""api";r=99;t=60"#);
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn add(headers: &mut HeaderMap, decision: &Decision, chosen: Fields, now: Micros) {
    // All values are parts of one piece of memory.
    let mut values = Vec::with_capacity(VALUES_USUAL);
    let fields = write_fields(decision, chosen, now.into(), &mut values);
    let values = Bytes::from(values);
    // At once, instead of growing on the way.
    headers.reserve(FIELDS_USUAL);
    let (mut start, mut has_room) = (0, true);
    for (field, end) in fields {
        // Names of limits are letters, digits and signs; everything else is digits.
        let value = HeaderValue::from_maybe_shared(values.slice(start..end));
        start = end;
        let Ok(value) = value else { continue };
        match field {
            Field::RateLimitPolicy | Field::RateLimit => drop(headers.append(name(field), value)),
            Field::XLimit => has_room = put_limit(headers, value, decision),
            Field::XRemaining | Field::XReset if !has_room => {}
            _ => drop(headers.insert(name(field), value)),
        }
    }
}

/// Tells of a limit where one alone has room, unless the response tells of a tighter one already.
fn put_limit(headers: &mut HeaderMap, value: HeaderValue, decision: &Decision) -> bool {
    if let Entry::Vacant(vacant) = headers.entry(X_LIMIT) {
        vacant.insert(value);
        return true;
    }
    let has_room = !tells_tighter(headers, decision);
    if has_room {
        headers.insert(X_LIMIT, value);
    }
    has_room
}

/// True when there is anything to add for a decision.
pub(crate) fn tells(decision: &Decision, chosen: Fields) -> bool {
    let Fields {
        ietf,
        legacy,
        retry_after,
    } = chosen;
    ietf || legacy || decision.is_degraded() || (retry_after && !decision.is_allowed())
}

/// True when the response tells of a limit already that has less left than any of this decision.
fn tells_tighter(headers: &HeaderMap, decision: &Decision) -> bool {
    let told = headers
        .get(X_REMAINING)
        .and_then(|value| value.to_str().ok());
    told.and_then(|told| told.parse().ok())
        .is_some_and(|told: u64| told <= decision.remaining())
}

const fn name(field: Field) -> HeaderName {
    match field {
        Field::RateLimitPolicy => RATE_LIMIT_POLICY,
        Field::RateLimit => RATE_LIMIT,
        Field::XLimit => X_LIMIT,
        Field::XRemaining => X_REMAINING,
        Field::XReset => X_RESET,
        Field::RetryAfter => RETRY_AFTER,
        _ => X_FALLBACK,
    }
}
