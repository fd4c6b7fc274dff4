//! HTTP header fields and response bodies made from a [`Decision`], as text and numbers.
//!
//! This module defines the spelling, the order and the rounding of every field. It uses no HTTP
//! library, so any server can send the result. Times are rounded up, so that a client which waits
//! as long as reported is never early. Shadow limits do not affect the client: header fields omit
//! them, and bodies list them with a mark.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::headers::{DecisionBody, EnabledFields, Problem, fields};
//! use tollgate::{Clock, Limit, Limiter, ManualClock, MemoryStore};
//!
//! let clock = ManualClock::default(); // 2027-01-01 00:00:00 UTC
//! let store = MemoryStore::builder().clock(clock.clone()).build();
//! let limiter = Limiter::new(store, [Limit::fixed_window("login", 1, Duration::from_secs(900))])?;
//! assert!(limiter.check("login", "ann").try_now()?.is_allowed());
//!
//! let decision = limiter.check("login", "ann").try_now()?;
//! let line = |(name, value): &(&str, String)| format!("{name}: {value}\n");
//! let head = fields(&decision, EnabledFields::default(), clock.now().into());
//! assert_eq!(
//!     head.iter().map(line).collect::<String>(),
//!     r#"RateLimit-Policy: "login";q=1;w=900
//! RateLimit: "login";r=0;t=900
//! X-RateLimit-Limit: 1
//! X-RateLimit-Remaining: 0
//! X-RateLimit-Reset: 1798762500
//! Retry-After: 900
//! "#
//! );
//!
//! let (status, body) = match Problem::denied(&decision) {
//!     None => (200, DecisionBody::new(&decision).to_json()),
//!     Some(problem) => (problem.status, problem.to_json()),
//! };
//! assert_eq!(status, 429);
//! assert!(body.contains(r#""violated-policies":["login"]"#));
//! # Ok::<(), tollgate::Error>(())
//! ```

mod body;
mod ietf;
mod legacy;
mod problem;
mod retry_after;
#[cfg(test)]
mod tests;
mod write;

use std::time::Duration;

pub use body::{DecisionBody, LimitBody};
pub use ietf::{rate_limit, rate_limit_policy};
pub use legacy::LegacyFields;
pub use problem::{PROBLEM_JSON, Problem, QUOTA_EXCEEDED, TEMPORARY_REDUCED_CAPACITY};
pub use retry_after::retry_after_secs;
use smallvec::SmallVec;

use crate::decision::{Decision, LimitOutcome};

/// The name of the field whose value is [`rate_limit_policy`].
pub const RATE_LIMIT_POLICY: &str = "RateLimit-Policy";
/// The name of the field whose value is [`rate_limit`].
pub const RATE_LIMIT: &str = "RateLimit";
/// The name of the field whose value is [`LegacyFields::limit`].
pub const X_RATE_LIMIT_LIMIT: &str = "X-RateLimit-Limit";
/// The name of the field whose value is [`LegacyFields::remaining`].
pub const X_RATE_LIMIT_REMAINING: &str = "X-RateLimit-Remaining";
/// The name of the field whose value is [`LegacyFields::reset_epoch_secs`].
pub const X_RATE_LIMIT_RESET: &str = "X-RateLimit-Reset";
/// The name of the field whose value is [`retry_after_secs`].
pub const RETRY_AFTER: &str = "Retry-After";
/// The name of the field that is `true` when the store was unavailable and the limits' failure
/// policies decided.
pub const X_RATE_LIMIT_FALLBACK: &str = "X-RateLimit-Fallback";

/// Which fields to send. Defaults to all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnabledFields {
    /// Send `RateLimit-Policy` and `RateLimit`.
    pub ietf: bool,
    /// Send `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    pub legacy: bool,
    /// Send `Retry-After` with denials.
    pub retry_after: bool,
}

impl Default for EnabledFields {
    fn default() -> Self {
        Self {
            ietf: true,
            legacy: true,
            retry_after: true,
        }
    }
}

/// The names and values of the fields to send with a decision, always in the same order. `now` is
/// the time since the UNIX epoch. `X-RateLimit-Fallback` is included whenever the store was
/// unavailable, whatever fields are enabled.
///
/// ```
/// use std::time::Duration;
/// use tollgate::headers::{EnabledFields, fields};
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
/// let decision = limiter.check("api", "ann").try_now()?;
///
/// let ietf = EnabledFields { legacy: false, ..EnabledFields::default() };
/// let head = fields(&decision, ietf, Duration::ZERO);
/// assert_eq!(head[0], ("RateLimit-Policy", r#""api";q=100;w=60"#.to_owned()));
/// assert_eq!(head[1], ("RateLimit", r#""api";r=99;t=60"#.to_owned()));
/// assert_eq!(head.len(), 2);
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn fields(
    decision: &Decision,
    enabled: EnabledFields,
    now: Duration,
) -> Vec<(&'static str, String)> {
    let mut fields = Vec::with_capacity(7);
    each_field(decision, enabled, now, |name, value| {
        fields.push((name, value.to_owned()));
    });
    fields
}

/// Calls `visit` with the name and value of each field that [`fields`] returns, in the same order.
/// The values are borrowed, so a server can copy them directly into its response.
pub fn each_field(
    decision: &Decision,
    enabled: EnabledFields,
    now: Duration,
    mut visit: impl FnMut(&'static str, &str),
) {
    let mut values = Vec::with_capacity(VALUES_CAPACITY);
    let mut start = 0;

    for (field, end) in write_fields(decision, enabled, now, &mut values) {
        // All values are ASCII.
        let value = std::str::from_utf8(&values[start..end]).unwrap_or_default();
        visit(field.name(), value);
        start = end;
    }
}

/// A buffer capacity that is enough for the field values of a request over two limits.
pub const VALUES_CAPACITY: usize = 192;

/// A header field about rate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// `RateLimit-Policy`: the quota and window of each limit.
    RateLimitPolicy,
    /// `RateLimit`: what is left of each limit, and until when.
    RateLimit,
    /// `X-RateLimit-Limit`: the size of the tightest limit.
    XLimit,
    /// `X-RateLimit-Remaining`: the units left in the tightest limit.
    XRemaining,
    /// `X-RateLimit-Reset`: when the tightest limit is full again.
    XReset,
    /// `Retry-After`: when to retry a denied request.
    RetryAfter,
    /// `X-RateLimit-Fallback`: the store was unavailable.
    XFallback,
}

impl Field {
    /// The name of the field.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimitPolicy => RATE_LIMIT_POLICY,
            Self::RateLimit => RATE_LIMIT,
            Self::XLimit => X_RATE_LIMIT_LIMIT,
            Self::XRemaining => X_RATE_LIMIT_REMAINING,
            Self::XReset => X_RATE_LIMIT_RESET,
            Self::RetryAfter => RETRY_AFTER,
            Self::XFallback => X_RATE_LIMIT_FALLBACK,
        }
    }
}

/// Appends the values of the fields that [`fields`] returns to a buffer, and returns the end of
/// each value in it: for servers that keep all values in one allocation.
///
/// ```
/// use std::time::Duration;
/// use tollgate::headers::{Field, EnabledFields, write_fields};
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
/// let decision = limiter.check("api", "ann").try_now()?;
/// let ietf = EnabledFields { legacy: false, ..EnabledFields::default() };
/// let mut values = Vec::new();
/// let mut fields = write_fields(&decision, ietf, Duration::ZERO, &mut values);
/// assert_eq!(values, br#""api";q=100;w=60"api";r=99;t=60"#);
/// assert_eq!(fields.next(), Some((Field::RateLimitPolicy, 16)));
/// assert_eq!(fields.next(), Some((Field::RateLimit, 31)));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn write_fields(
    decision: &Decision,
    enabled: EnabledFields,
    now: Duration,
    out: &mut Vec<u8>,
) -> impl Iterator<Item = (Field, usize)> + use<> {
    let mut ends = SmallVec::<[(Field, usize); 7]>::new();
    // Fields without a value are left out.
    let mut field = |field, write: &dyn Fn(&mut Vec<u8>)| {
        let start = out.len();
        write(out);
        if out.len() > start {
            ends.push((field, out.len()));
        }
    };

    if enabled.ietf {
        field(Field::RateLimitPolicy, &|out| {
            ietf::write_policy(decision, out);
        });
        field(Field::RateLimit, &|out| ietf::write_state(decision, out));
    }

    if enabled.legacy
        && let Some(LegacyFields {
            limit,
            remaining,
            reset_epoch_secs,
        }) = LegacyFields::new(decision, now)
    {
        field(Field::XLimit, &|out| write::digits(out, limit));
        field(Field::XRemaining, &|out| write::digits(out, remaining));
        field(Field::XReset, &|out| write::digits(out, reset_epoch_secs));
    }

    if enabled.retry_after
        && let Some(secs) = retry_after_secs(decision)
    {
        field(Field::RetryAfter, &|out| write::digits(out, secs));
    }

    if decision.is_degraded() {
        field(Field::XFallback, &|out| out.extend_from_slice(b"true"));
    }

    ends.into_iter()
}

/// The limits that are not shadow limits: only they can deny a request.
fn enforced(decision: &Decision) -> impl Iterator<Item = &LimitOutcome> {
    decision.limits().iter().filter(|limit| !limit.is_shadow())
}

/// Whole seconds, rounded up.
fn secs_ceil(length: Duration) -> u64 {
    length
        .as_secs()
        .saturating_add(u64::from(length.subsec_nanos() > 0))
}

/// Whole milliseconds, rounded up.
fn millis_ceil(length: Duration) -> u64 {
    length
        .as_secs()
        .saturating_mul(1_000)
        .saturating_add(length.subsec_nanos().div_ceil(1_000_000).into())
}
