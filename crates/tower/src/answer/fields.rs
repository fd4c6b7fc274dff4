//! The header fields that tell a client where it stands, as types of an HTTP library.

use bytes::BytesMut;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use tollgate::headers::{self, Fields, each_field};
use tollgate::{Decision, Micros};

/// Room for the values of the fields that tell of two limits.
const VALUES_USUAL: usize = 192;

/// The names as HTTP libraries want them, checked when this is compiled and not at every request.
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const X_FALLBACK: HeaderName = HeaderName::from_static("x-ratelimit-fallback");

/// Adds the fields of a decision to those of a response. Where another layer has told of its limits already, the lists of
/// both stand there, and of the fields that have room for one limit those of the tighter.
///
/// ```
/// use std::time::Duration;
/// use http::HeaderMap;
/// use tollgate::{Limit, Limiter, headers::Fields};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
/// let decision = limiter.check("api", "ann").immediately()?;
/// let mut headers = HeaderMap::new();
/// tollgate_tower::add_fields(&mut headers, &decision, Fields::default(), limiter.clock().now());
/// assert_eq!(headers["ratelimit"], r#""api";r=99;t=60"#);
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn add(headers: &mut HeaderMap, decision: &Decision, mut chosen: Fields, now: Micros) {
    chosen.legacy &= headers.is_empty() || !tells_tighter(headers, decision);
    // All values are parts of one piece of memory.
    let mut values = BytesMut::with_capacity(VALUES_USUAL);
    each_field(decision, chosen, now.into(), |name, value| {
        values.extend_from_slice(value.as_bytes());
        // Names of limits are letters, digits and signs; everything else is digits.
        let Ok(value) = HeaderValue::from_maybe_shared(values.split().freeze()) else { return };
        if matches!(name, headers::RATE_LIMIT_POLICY | headers::RATE_LIMIT) {
            headers.append(field_name(name), value);
        } else {
            headers.insert(field_name(name), value);
        }
    });
}

/// True when there is anything to add for a decision.
pub(crate) fn tells(decision: &Decision, chosen: Fields) -> bool {
    let Fields { ietf, legacy, retry_after } = chosen;
    ietf || legacy || decision.is_degraded() || (retry_after && !decision.is_allowed())
}

/// True when the response tells of a limit already that has less left than any of this decision.
fn tells_tighter(headers: &HeaderMap, decision: &Decision) -> bool {
    let told = headers.get(X_REMAINING).and_then(|value| value.to_str().ok());
    told.and_then(|told| told.parse().ok()).is_some_and(|told: u64| told <= decision.remaining())
}

fn field_name(name: &'static str) -> HeaderName {
    match name {
        headers::RATE_LIMIT_POLICY => RATE_LIMIT_POLICY,
        headers::RATE_LIMIT => RATE_LIMIT,
        headers::X_RATE_LIMIT_LIMIT => X_LIMIT,
        headers::X_RATE_LIMIT_REMAINING => X_REMAINING,
        headers::X_RATE_LIMIT_RESET => X_RESET,
        headers::X_RATE_LIMIT_FALLBACK => X_FALLBACK,
        headers::RETRY_AFTER => RETRY_AFTER,
        other => HeaderName::from_bytes(other.as_bytes()).unwrap_or(RETRY_AFTER),
    }
}
