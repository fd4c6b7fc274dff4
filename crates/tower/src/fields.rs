//! The rate limit fields of a decision as typed HTTP headers.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{Entry, HeaderName, HeaderValue, RETRY_AFTER};
use tollgate::headers::{EnabledFields, Field, VALUES_CAPACITY, write_fields};
use tollgate::{Decision, Micros};

/// The number of fields of an allowed request.
const FIELDS_USUAL: usize = 5;

// Constants, so that no name is parsed per request.
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const X_FALLBACK: HeaderName = HeaderName::from_static("x-ratelimit-fallback");

/// Adds the fields of a decision to response headers.
///
/// If another layer has already added fields, `RateLimit` and `RateLimit-Policy` list the limits of
/// both layers. `X-RateLimit-*` has room for one limit only and describes the tighter one.
///
/// ```
/// use std::time::Duration;
/// use http::HeaderMap;
/// use tollgate::{Limit, Limiter, headers::EnabledFields};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
/// let decision = limiter.check("api", "ann").try_now()?;
/// let mut headers = HeaderMap::new();
/// let enabled = EnabledFields::default();
/// tollgate_tower::add_fields(&mut headers, &decision, enabled, limiter.clock().now());
/// assert_eq!(headers["ratelimit"], r#""api";r=99;t=60"#);
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn add(headers: &mut HeaderMap, decision: &Decision, enabled: EnabledFields, now: Micros) {
    // All values share one allocation.
    let mut values = Vec::with_capacity(VALUES_CAPACITY);
    let fields = write_fields(decision, enabled, now.into(), &mut values);
    let values = Bytes::from(values);

    // One allocation instead of several while the map grows.
    headers.reserve(FIELDS_USUAL);

    let (mut start, mut is_tightest) = (0, true);
    for (field, end) in fields {
        // Always valid: limit names are restricted to header characters, the rest is digits.
        let value = HeaderValue::from_maybe_shared(values.slice(start..end));
        start = end;
        let Ok(value) = value else { continue };

        match field {
            Field::RateLimitPolicy | Field::RateLimit => drop(headers.append(name(field), value)),
            Field::XLimit => is_tightest = insert_limit(headers, value, decision),
            Field::XRemaining | Field::XReset if !is_tightest => {}
            _ => drop(headers.insert(name(field), value)),
        }
    }
}

/// Inserts `X-RateLimit-Limit`, unless the response already describes a tighter limit. Returns
/// whether it was inserted.
fn insert_limit(headers: &mut HeaderMap, value: HeaderValue, decision: &Decision) -> bool {
    if let Entry::Vacant(vacant) = headers.entry(X_LIMIT) {
        vacant.insert(value);
        return true;
    }

    let is_tightest = !has_tighter_limit(headers, decision);
    if is_tightest {
        headers.insert(X_LIMIT, value);
    }
    is_tightest
}

/// Whether [`add`] would add any field for a decision.
pub(crate) fn has_any(decision: &Decision, enabled: EnabledFields) -> bool {
    let EnabledFields {
        ietf,
        legacy,
        retry_after,
    } = enabled;
    ietf || legacy || decision.is_degraded() || (retry_after && !decision.is_allowed())
}

/// Whether the response already describes a limit with no more remaining than this decision.
fn has_tighter_limit(headers: &HeaderMap, decision: &Decision) -> bool {
    let remaining = headers
        .get(X_REMAINING)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse().ok());
    remaining.is_some_and(|remaining: u64| remaining <= decision.remaining())
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
