//! What a client is told: header fields and bodies made from a [`Decision`], as text and numbers.
//!
//! Owns the spelling, the order and the rounding of every field. Knows no HTTP library, so any
//! server can send the result. Times round up: a client that waits as long as it is told is never
//! early. Shadow limits change nothing for the client, so they appear in no field; the body lists
//! them, marked.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::headers::{DecisionBody, Fields, Problem, fields};
//! use tollgate::{Clock, Limit, Limiter, ManualClock, MemoryStore};
//!
//! let clock = ManualClock::default(); // 2027-01-01 00:00:00 UTC
//! let store = MemoryStore::builder().clock(clock.clone()).build();
//! let limiter = Limiter::new(store, [Limit::fixed_window("login", 1, Duration::from_secs(900))]);
//! assert!(limiter.check("login", "ann").now_or_never()?.is_allowed());
//!
//! let decision = limiter.check("login", "ann").now_or_never()?;
//! let text = |(name, value): &(&str, String)| format!("{name}: {value}\n");
//! let sent: String = fields(&decision, Fields::default(), clock.now().into()).iter().map(text).collect();
//! assert_eq!(
//!     sent,
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

/// The name of the field that [`rate_limit_policy`] fills.
pub const RATE_LIMIT_POLICY: &str = "RateLimit-Policy";
/// The name of the field that [`rate_limit`] fills.
pub const RATE_LIMIT: &str = "RateLimit";
/// The name of the field that [`LegacyFields::limit`] fills.
pub const X_RATE_LIMIT_LIMIT: &str = "X-RateLimit-Limit";
/// The name of the field that [`LegacyFields::remaining`] fills.
pub const X_RATE_LIMIT_REMAINING: &str = "X-RateLimit-Remaining";
/// The name of the field that [`LegacyFields::reset_epoch_secs`] fills.
pub const X_RATE_LIMIT_RESET: &str = "X-RateLimit-Reset";
/// The name of the field that [`retry_after_secs`] fills.
pub const RETRY_AFTER: &str = "Retry-After";
/// The name of the field that says `true` when the store was away and the limits' failure policies
/// answered.
pub const X_RATE_LIMIT_FALLBACK: &str = "X-RateLimit-Fallback";

/// Which fields to send. By default all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// `RateLimit-Policy` and `RateLimit`.
    pub ietf: bool,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    pub legacy: bool,
    /// `Retry-After`.
    pub retry_after: bool,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            ietf: true,
            legacy: true,
            retry_after: true,
        }
    }
}

/// The names and values of the fields to send with a decision, always in the same order. `now` is
/// the time since the UNIX epoch. Whatever is chosen, an answer given while the store was away says
/// so.
///
/// ```
/// use std::time::Duration;
/// use tollgate::headers::{Fields, fields};
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
/// let decision = limiter.check("api", "ann").now_or_never()?;
///
/// let ietf = Fields { legacy: false, ..Fields::default() };
/// let sent = fields(&decision, ietf, Duration::ZERO);
/// assert_eq!(sent[0], ("RateLimit-Policy", r#""api";q=100;w=60"#.to_owned()));
/// assert_eq!(sent[1], ("RateLimit", r#""api";r=99;t=60"#.to_owned()));
/// assert_eq!(sent.len(), 2);
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn fields(decision: &Decision, chosen: Fields, now: Duration) -> Vec<(&'static str, String)> {
    let mut fields = Vec::with_capacity(7);
    each_field(decision, chosen, now, |name, value| {
        fields.push((name, value.to_owned()))
    });
    fields
}

/// Tells the same fields one after another, in the same order. Their values are lent, so that a
/// server can put them where it sends them from.
pub fn each_field(
    decision: &Decision,
    chosen: Fields,
    now: Duration,
    mut tell: impl FnMut(&'static str, &str),
) {
    let mut values = Vec::with_capacity(VALUES_USUAL);
    let mut start = 0;
    for (field, end) in write_fields(decision, chosen, now, &mut values) {
        // All of them are letters, digits and signs.
        tell(
            field.name(),
            std::str::from_utf8(&values[start..end]).unwrap_or_default(),
        );
        start = end;
    }
}

/// Room for the values of the fields that tell of two limits.
pub const VALUES_USUAL: usize = 192;

/// A field that tells a client where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// What each limit is.
    RateLimitPolicy,
    /// Where the client stands with each.
    RateLimit,
    /// The size of the tightest limit.
    XLimit,
    /// What is left of it.
    XRemaining,
    /// When it is full again.
    XReset,
    /// When to come back.
    RetryAfter,
    /// The store was away.
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

/// Writes the values of the same fields one behind the other, and says where each ends; for servers
/// that keep all of them in one piece of memory.
///
/// ```
/// use std::time::Duration;
/// use tollgate::headers::{Field, Fields, write_fields};
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
/// let decision = limiter.check("api", "ann").now_or_never()?;
/// let ietf = Fields { legacy: false, ..Fields::default() };
/// let mut values = Vec::new();
/// let mut fields = write_fields(&decision, ietf, Duration::ZERO, &mut values);
/// assert_eq!(values, br#""api";q=100;w=60"api";r=99;t=60"#);
/// assert_eq!((fields.next(), fields.next()), (Some((Field::RateLimitPolicy, 16)), Some((Field::RateLimit, 31))));
/// # Ok::<(), tollgate::Error>(())
/// ```
pub fn write_fields(
    decision: &Decision,
    chosen: Fields,
    now: Duration,
    to: &mut Vec<u8>,
) -> impl Iterator<Item = (Field, usize)> + use<> {
    let mut ends = SmallVec::<[(Field, usize); 7]>::new();
    let mut field = |field, write: &dyn Fn(&mut Vec<u8>)| {
        let start = to.len();
        write(to);
        if to.len() > start {
            ends.push((field, to.len()));
        }
    };
    if chosen.ietf {
        field(Field::RateLimitPolicy, &|to| {
            ietf::write_policy(decision, to)
        });
        field(Field::RateLimit, &|to| ietf::write_state(decision, to));
    }
    if chosen.legacy
        && let Some(legacy) = LegacyFields::new(decision, now)
    {
        field(Field::XLimit, &|to| write::digits(to, legacy.limit));
        field(Field::XRemaining, &|to| write::digits(to, legacy.remaining));
        field(Field::XReset, &|to| {
            write::digits(to, legacy.reset_epoch_secs)
        });
    }
    if chosen.retry_after
        && let Some(secs) = retry_after_secs(decision)
    {
        field(Field::RetryAfter, &|to| write::digits(to, secs));
    }
    if decision.is_degraded() {
        field(Field::XFallback, &|to| to.extend_from_slice(b"true"));
    }
    ends.into_iter()
}

/// The limits that can refuse: the only ones a client needs to pace itself.
fn enforced(decision: &Decision) -> impl Iterator<Item = &LimitOutcome> {
    decision
        .limits()
        .iter()
        .filter(|status| !status.is_shadow())
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
