//! The fields `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers, versions
//! 10 and 11: lists of structured fields (RFC 9651) with one member per limit, in the order asked.
//!
//! They are written by hand: a limit's name is letters, digits and `-_.:/`, which a structured
//! string holds as they are, and the rest is numbers. A library that can write any structured field
//! took 800 ns for the two, a third of what a request costs the service. The tests read what is
//! written here with that library.

use smallvec::SmallVec;

use super::retry_after::wait_secs;
use super::{enforced, secs_ceil, write};
use crate::decision::{Decision, LimitOutcome, Retry};

/// A limit's name, what it holds, and over how many seconds.
type Policy<'d> = (&'d [u8], u64, Option<u64>);

/// Structured fields have no integers of more than 15 digits; a limit can be larger.
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The value of `RateLimit-Policy`: for every enforced limit its name, what it holds (`q`) and over
/// how many seconds (`w`, absent for a concurrency limit). `None` when no limit is enforced.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, Rate, headers};
///
/// let limiter = Limiter::in_memory([
///     Limit::token_bucket("burst", 100, Rate::per_second(10)),
///     Limit::concurrency("in-flight", 20, Duration::from_secs(30)),
/// ]);
/// let decision = limiter.check("burst", "ann").and("in-flight", "ann").now_or_never()?;
/// let policy = headers::rate_limit_policy(&decision);
/// assert_eq!(policy.as_deref(), Some(r#""burst";q=100;w=10, "in-flight";q=20"#));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn rate_limit_policy(decision: &Decision) -> Option<String> {
    told(decision, write_policy)
}

/// Writes the value of `RateLimit-Policy`, nothing when no limit is enforced.
pub(super) fn write_policy(decision: &Decision, to: &mut Vec<u8>) {
    // A limit asked about under two keys is one policy.
    let mut told: SmallVec<[Policy<'_>; 4]> = SmallVec::new();
    let mut list = Members::behind(to);
    for status in enforced(decision) {
        let window_secs = status.window().map(|window| secs_ceil(window).max(1));
        let policy @ (name, limit, _) = (status.name_bytes(), status.limit(), window_secs);
        if told.contains(&policy) {
            continue;
        }
        told.push(policy);
        list.member(name, (";q=", limit), window_secs.map(|secs| (";w=", secs)));
    }
}

/// The value of `RateLimit`: for every enforced limit its name, what is left (`r`) and the seconds
/// until more is (`t`). Where the limit refuses, `t` says when this request would pass, and is
/// absent when it never will. `None` when no limit is enforced.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, headers};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
/// let decision = limiter.check("api", "ann").cost(30).now_or_never()?;
/// assert_eq!(headers::rate_limit(&decision).as_deref(), Some(r#""api";r=70;t=60"#));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn rate_limit(decision: &Decision) -> Option<String> {
    told(decision, write_state)
}

/// Writes the value of `RateLimit`, nothing when no limit is enforced.
pub(super) fn write_state(decision: &Decision, to: &mut Vec<u8>) {
    let mut list = Members::behind(to);
    for status in enforced(decision) {
        let until_more = until_more_secs(status).map(|secs| (";t=", secs));
        list.member(status.name_bytes(), (";r=", status.remaining()), until_more);
    }
}

fn told(decision: &Decision, write: fn(&Decision, &mut Vec<u8>)) -> Option<String> {
    let mut text = Vec::with_capacity(48 * decision.limits().len());
    write(decision, &mut text);
    String::from_utf8(text).ok().filter(|text| !text.is_empty())
}

fn until_more_secs(status: &LimitOutcome) -> Option<u64> {
    match status.retry() {
        None => Some(secs_ceil(status.reset_after())),
        Some(Retry::After(length)) => Some(wait_secs(length)),
        Some(Retry::Never) => None,
    }
}

/// A list being written.
struct Members<'t> {
    to: &'t mut Vec<u8>,
    start: usize,
}

impl<'t> Members<'t> {
    /// A list behind what is there already.
    const fn behind(to: &'t mut Vec<u8>) -> Self {
        let start = to.len();
        Self { to, start }
    }

    /// Adds a name with one or two numbers.
    fn member(&mut self, name: &[u8], first: (&str, u64), second: Option<(&str, u64)>) {
        if self.to.len() > self.start {
            self.to.extend_from_slice(b", ");
        }
        self.to.push(b'"');
        self.to.extend_from_slice(name);
        self.to.push(b'"');
        for (key, value) in [Some(first), second].into_iter().flatten() {
            self.to.extend_from_slice(key.as_bytes());
            write::digits(self.to, value.min(INTEGER_MAX));
        }
    }
}
