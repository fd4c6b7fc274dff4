//! The fields `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers, versions
//! 10 and 11: structured lists (RFC 9651) with one member per limit, in the order of the request.
//!
//! They are written by hand: names contain only letters, digits and `-_.:/`, which need no escaping
//! in a structured string, and everything else is numbers. The crate `sfv` took 800 ns for the two
//! fields, a third of what a request costs the service. The tests parse the fields with it.

use smallvec::SmallVec;

use super::retry_after::wait_secs;
use super::{enforced, secs_ceil, write};
use crate::decision::{Decision, LimitOutcome, Retry};

/// A limit's name, its size and its window in seconds.
type PolicyMember<'d> = (&'d [u8], u64, Option<u64>);

/// The largest integer of a structured field: 15 digits. Limits can be larger and are capped.
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The value of `RateLimit-Policy`: for every enforced limit its name, its size (`q`) and its
/// window in seconds (`w`, absent for a concurrency limit). `None` when no limit is enforced.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, Rate, headers};
///
/// let limiter = Limiter::in_memory([
///     Limit::token_bucket("burst", 100, Rate::per_second(10)),
///     Limit::concurrency("in-flight", 20, Duration::from_secs(30)),
/// ])?;
/// let decision = limiter.check("burst", "ann").and("in-flight", "ann").try_now()?;
/// let policy = headers::rate_limit_policy(&decision);
/// assert_eq!(policy.as_deref(), Some(r#""burst";q=100;w=10, "in-flight";q=20"#));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn rate_limit_policy(decision: &Decision) -> Option<String> {
    to_text(decision, write_policy)
}

/// Appends the value of `RateLimit-Policy`; nothing when no limit is enforced.
pub(super) fn write_policy(decision: &Decision, out: &mut Vec<u8>) {
    // A limit that is checked with two keys is one policy, so duplicates are skipped.
    let mut written: SmallVec<[PolicyMember<'_>; 4]> = SmallVec::new();
    let mut list = ListWriter::new(out);

    for limit in enforced(decision) {
        let window_secs = limit.window().map(|window| secs_ceil(window).max(1));
        let member @ (name, size, _) = (limit.name_bytes(), limit.limit(), window_secs);
        if written.contains(&member) {
            continue;
        }
        written.push(member);
        list.member(name, (";q=", size), window_secs.map(|secs| (";w=", secs)));
    }
}

/// The value of `RateLimit`: for every enforced limit its name, the units left (`r`) and the
/// seconds until its budget is full again (`t`). Where the limit denies the request, `t` is when
/// the request would pass, and absent if it can never pass. `None` when no limit is enforced.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, headers};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
/// let decision = limiter.check("api", "ann").cost(30).try_now()?;
/// assert_eq!(headers::rate_limit(&decision).as_deref(), Some(r#""api";r=70;t=60"#));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn rate_limit(decision: &Decision) -> Option<String> {
    to_text(decision, write_state)
}

/// Appends the value of `RateLimit`; nothing when no limit is enforced.
pub(super) fn write_state(decision: &Decision, out: &mut Vec<u8>) {
    let mut list = ListWriter::new(out);
    for limit in enforced(decision) {
        let time = time_secs(limit).map(|secs| (";t=", secs));
        list.member(limit.name_bytes(), (";r=", limit.remaining()), time);
    }
}

fn to_text(decision: &Decision, write: fn(&Decision, &mut Vec<u8>)) -> Option<String> {
    let mut text = Vec::with_capacity(48 * decision.limits().len());
    write(decision, &mut text);
    String::from_utf8(text).ok().filter(|text| !text.is_empty())
}

/// The parameter `t` of a limit.
fn time_secs(limit: &LimitOutcome) -> Option<u64> {
    match limit.retry() {
        None => Some(secs_ceil(limit.reset_after())),
        Some(Retry::After(length)) => Some(wait_secs(length)),
        Some(Retry::Never) => None,
    }
}

/// Appends a structured list to a buffer.
struct ListWriter<'t> {
    out: &'t mut Vec<u8>,
    /// Where the list starts in the buffer.
    start: usize,
}

impl<'t> ListWriter<'t> {
    const fn new(out: &'t mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start }
    }

    /// Adds a member: a quoted name with one or two integer parameters.
    fn member(&mut self, name: &[u8], first: (&str, u64), second: Option<(&str, u64)>) {
        if self.out.len() > self.start {
            self.out.extend_from_slice(b", ");
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name);
        self.out.push(b'"');

        for (key, value) in [Some(first), second].into_iter().flatten() {
            self.out.extend_from_slice(key.as_bytes());
            write::digits(self.out, value.min(INTEGER_MAX));
        }
    }
}
