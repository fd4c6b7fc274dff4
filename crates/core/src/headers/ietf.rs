//! The fields `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers, versions 10 and 11: lists of
//! structured fields (RFC 9651) with one member per limit, in the order asked.

use sfv::{Integer, KeyRef, ListSerializer, StringRef};

use super::retry_after::wait_secs;
use super::{enforced, secs_ceil};
use crate::decision::{Decision, LimitStatus, Retry};

const QUOTA: &KeyRef = KeyRef::constant("q");
const WINDOW_SECS: &KeyRef = KeyRef::constant("w");
const REMAINING: &KeyRef = KeyRef::constant("r");
const UNTIL_MORE_SECS: &KeyRef = KeyRef::constant("t");

/// The value of `RateLimit-Policy`: for every enforced limit its name, what it holds (`q`) and over how many seconds
/// (`w`, absent for a concurrency limit). `None` when no limit is enforced.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, Rate, headers};
///
/// let limiter = Limiter::in_memory([
///     Limit::token_bucket("burst", 100, Rate::per_second(10)),
///     Limit::concurrency("in-flight", 20, Duration::from_secs(30)),
/// ]);
/// let decision = limiter.check("burst", "ann").and("in-flight", "ann").immediately()?;
/// let policy = headers::rate_limit_policy(&decision);
/// assert_eq!(policy.as_deref(), Some(r#""burst";q=100;w=10, "in-flight";q=20"#));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn rate_limit_policy(decision: &Decision) -> Option<String> {
    // A limit asked about under two keys is one policy.
    let mut told: Vec<(&str, u64, Option<u64>)> = Vec::with_capacity(decision.limits().len());
    let mut text = room(decision);
    let mut list = ListSerializer::with_buffer(&mut text);
    for status in enforced(decision) {
        let window_secs = status.window().map(|window| secs_ceil(window).max(1));
        let policy = (status.name(), status.limit(), window_secs);
        if told.contains(&policy) {
            continue;
        }
        told.push(policy);
        let member = list.bare_item(name(status)).parameter(QUOTA, integer(status.limit()));
        if let Some(secs) = window_secs {
            member.parameter(WINDOW_SECS, integer(secs));
        }
    }
    list.finish().is_some().then_some(text)
}

/// The value of `RateLimit`: for every enforced limit its name, what is left (`r`) and the seconds until more is (`t`).
/// Where the limit refuses, `t` says when this request would pass, and is absent when it never will. `None` when no
/// limit is enforced.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, headers};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
/// let decision = limiter.check("api", "ann").cost(30).immediately()?;
/// assert_eq!(headers::rate_limit(&decision).as_deref(), Some(r#""api";r=70;t=60"#));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn rate_limit(decision: &Decision) -> Option<String> {
    let mut text = room(decision);
    let mut list = ListSerializer::with_buffer(&mut text);
    for status in enforced(decision) {
        let member = list.bare_item(name(status)).parameter(REMAINING, integer(status.remaining()));
        if let Some(secs) = until_more_secs(status) {
            member.parameter(UNTIL_MORE_SECS, integer(secs));
        }
    }
    list.finish().is_some().then_some(text)
}

/// A text with room for what most decisions say: it is made for every request, and need not grow several times.
fn room(decision: &Decision) -> String {
    String::with_capacity(decision.limits().len().saturating_mul(48))
}

fn until_more_secs(status: &LimitStatus) -> Option<u64> {
    match status.retry() {
        None => Some(secs_ceil(status.reset_after())),
        Some(Retry::After(length)) => Some(wait_secs(length)),
        Some(Retry::Never) => None,
    }
}

/// A limit's name is letters, digits and `-_.:/`, all of which a structured string can hold.
fn name(status: &LimitStatus) -> &StringRef {
    StringRef::from_str(status.name()).unwrap_or(StringRef::EMPTY)
}

/// Structured fields have no integers of more than 15 digits; a limit can be larger.
fn integer(value: u64) -> Integer {
    Integer::try_from(value).unwrap_or(Integer::MAX)
}
