//! The rate limit header fields.
//!
//! `RateLimit-Policy` and `RateLimit` are those of draft-ietf-httpapi-ratelimit-headers, versions 10
//! and 11: structured lists (RFC 9651) with one member per limit, in the order of the request, up
//! to 32. They
//! are written by hand: names contain only letters, digits and `-_.:/`, which need no escaping in a
//! structured string, and everything else is numbers. The crate `sfv` took 800 ns for the two
//! fields, a third of what a request costs the service. The tests parse the fields with it.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use smallvec::SmallVec;
use tollgate::{Decision, LimitOutcome, Micros, QuotaUnit};

use crate::profiles::{ProfileFields, profile_fields};
use crate::reported::{EnabledFields, enforced};
use crate::time::{retry_secs, secs_ceil};

/// `RateLimit-Policy`: for every enforced limit its name, its size (`q`), its window in seconds
/// (`w`, absent for a concurrency limit) and its unit (`qu`, absent for requests).
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// `RateLimit`: for every enforced limit its name, the units left (`r`) and the seconds until more
/// are available (`t`). Where the limit denies the request, `t` is when the request would pass.
///
/// `t` is absent when there is no such moment, because the budget is full or the request can never
/// pass, or when it is unknown, as for the permits of a concurrency limit. `Retry-After` must not be
/// earlier than any `t`, so that of a limit which does not deny the request is absent if it is later.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// `X-RateLimit-Limit`: the size of the [tightest](Decision::tightest) limit.
pub const X_RATE_LIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// `X-RateLimit-Remaining`: the units left in the tightest limit.
pub const X_RATE_LIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// `X-RateLimit-Reset`: when the tightest limit is full again, in seconds since the UNIX epoch,
/// rounded up.
pub const X_RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// `X-RateLimit-Fallback`: `true` when the store was unavailable and the limits' failure policies
/// decided; otherwise absent.
pub const X_RATE_LIMIT_FALLBACK: HeaderName = HeaderName::from_static("x-ratelimit-fallback");

/// The most limits that `RateLimit-Policy` and `RateLimit` list, so that a proxy never finds the
/// head of a response too long.
const LISTED_MAX: usize = 32;
/// A capacity that is enough for the values of a request over two limits.
const VALUES_CAPACITY: usize = 192;
/// The names of the values, in the order of the text.
const NAMES: [&str; 6] = [
    "RateLimit-Policy",
    "RateLimit",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "Retry-After",
];
/// The value of `X-RateLimit-Fallback`.
const FALLBACK: HeaderValue = HeaderValue::from_static("true");
/// The largest integer of a structured field: 15 digits. Limits can be larger and are capped.
pub(crate) const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The header fields of a decision. Iterating over it yields names and values, always in the same
/// order.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
/// use tollgate_http::{EnabledFields, Fields};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
/// let decision = limiter.check("api", "ann").try_now()?;
///
/// let ietf = EnabledFields { legacy: false, ..EnabledFields::default() };
/// let fields = Fields::new(&decision, ietf, limiter.clock().now());
/// let fields: Vec<_> = fields.into_iter().collect();
/// assert_eq!(fields[0].0, "RateLimit-Policy");
/// assert_eq!(fields[0].1, r#""api";q=100;w=60"#);
/// assert_eq!(fields[1].0, "RateLimit");
/// assert_eq!(fields[1].1, r#""api";r=99;t=60"#);
/// assert_eq!(fields.len(), 2);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fields {
    /// The values, one after the other: all are parts of one allocation, and a value is made of
    /// its part when it is needed. So fields are small, and cheap to keep until the response
    /// arrives.
    text: Bytes,
    /// The lengths of the values of [`NAMES`]. Those that are left out are empty.
    lengths: [usize; NAMES.len()],
    profiles: Vec<ProfileFields>,
    is_fallback: bool,
    /// The units left in the tightest limit.
    remaining: u64,
}

impl Fields {
    /// The fields of a decision that was made at `now`. Shadow limits do not affect the client and
    /// are omitted. `X-RateLimit-Fallback` is included whenever the store was unavailable, whatever
    /// fields are enabled.
    pub fn new(decision: &Decision, enabled: EnabledFields, now: Micros) -> Self {
        // Without an enforced limit there is nothing to describe.
        let tightest = decision.tightest();
        let tightest = tightest.filter(|limit| !limit.is_shadow() && limit.is_counted());

        let mut text = Vec::with_capacity(VALUES_CAPACITY);
        let mut lengths = [0; NAMES.len()];
        if enabled.ietf && tightest.is_some() {
            lengths[0] = write_policies(&mut text, decision);
            lengths[1] = write_states(&mut text, decision);
        }
        if enabled.legacy
            && let Some(limit) = tightest
        {
            let reset = Duration::from(now).saturating_add(limit.reset_after());
            lengths[2] = write_number(&mut text, limit.limit());
            lengths[3] = write_number(&mut text, limit.remaining());
            lengths[4] = write_number(&mut text, secs_ceil(reset));
        }
        // The decision reports the longest retry time of all limits, so no limit's `t` is later.
        if enabled.retry_after
            && let Some(length) = decision.retry_after()
        {
            lengths[5] = write_number(&mut text, retry_secs(length));
        }

        Self {
            text: Bytes::from(text),
            lengths,
            profiles: if enabled.openai || enabled.anthropic {
                profile_fields(decision, enabled, now)
            } else {
                Vec::new()
            },
            is_fallback: decision.is_degraded(),
            remaining: tightest.map_or(0, LimitOutcome::remaining),
        }
    }

    /// Adds the fields to the headers of a response.
    ///
    /// If the response already has fields of another layer, `RateLimit` and `RateLimit-Policy` list
    /// the limits of both layers. `X-RateLimit-*` has room for one limit only and describes the
    /// tighter one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use http::HeaderMap;
    /// use tollgate::{Limit, Limiter};
    /// use tollgate_http::{EnabledFields, Fields};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
    /// let decision = limiter.check("api", "ann").try_now()?;
    /// let mut headers = HeaderMap::new();
    /// let enabled = EnabledFields::default();
    /// Fields::new(&decision, enabled, limiter.clock().now()).add_to(&mut headers);
    /// assert_eq!(headers["ratelimit"], r#""api";r=99;t=60"#);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn add_to(self, headers: &mut HeaderMap) {
        let Self { mut text, .. } = self;
        let mut take = |index: usize| take_value(&mut text, self.lengths[index]);
        if let (Some(policies), Some(states)) = (take(0), take(1)) {
            headers.append(RATE_LIMIT_POLICY, policies);
            headers.append(RATE_LIMIT, states);
        }
        if let (Some(limit), Some(remaining), Some(reset)) = (take(2), take(3), take(4))
            && insert_limit(headers, limit, self.remaining)
        {
            headers.insert(X_RATE_LIMIT_REMAINING, remaining);
            headers.insert(X_RATE_LIMIT_RESET, reset);
        }

        let retry_after = take(5);
        for fields in self.profiles {
            fields.add_to(headers);
        }
        if let Some(retry_after) = retry_after {
            headers.insert(RETRY_AFTER, retry_after);
        }
        if self.is_fallback {
            headers.insert(X_RATE_LIMIT_FALLBACK, FALLBACK);
        }
    }
}

/// The names and values, for HTTP libraries with types of their own.
impl IntoIterator for Fields {
    type Item = (&'static str, HeaderValue);
    type IntoIter = smallvec::IntoIter<[Self::Item; 7]>;

    fn into_iter(mut self) -> Self::IntoIter {
        let values = NAMES.into_iter().zip(self.lengths);
        let values =
            values.filter_map(|(name, length)| Some((name, take_value(&mut self.text, length)?)));
        let mut fields: SmallVec<[Self::Item; 7]> = values.collect();

        // The last value follows the fields of vendors.
        let has_retry_after = self.lengths[5] > 0;
        let retry_after = has_retry_after.then(|| fields.pop()).flatten();
        let profiles = self.profiles.into_iter();
        fields.extend(profiles.flat_map(ProfileFields::into_pairs));
        fields.extend(retry_after);
        let fallback = ("X-RateLimit-Fallback", FALLBACK);
        fields.extend(self.is_fallback.then_some(fallback));
        fields.into_iter()
    }
}

/// Takes the next value of the text; `None` if it is left out.
pub(crate) fn take_value(text: &mut Bytes, length: usize) -> Option<HeaderValue> {
    if length == 0 {
        return None;
    }
    // Always valid: limit names are restricted to header characters, the rest is digits.
    HeaderValue::from_maybe_shared(text.split_to(length)).ok()
}

/// Inserts `X-RateLimit-Limit`, unless the response already describes a limit with no more than
/// `remaining` units left. Returns whether it was inserted.
pub(crate) fn insert_limit(headers: &mut HeaderMap, value: HeaderValue, remaining: u64) -> bool {
    // Usually there is none, and inserting is the fastest way to find out.
    let Some(previous) = headers.insert(X_RATE_LIMIT_LIMIT, value) else {
        return true;
    };

    let other = headers
        .get(X_RATE_LIMIT_REMAINING)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok());
    let is_tightest = other.is_none_or(|other| other > remaining);
    if !is_tightest {
        headers.insert(X_RATE_LIMIT_LIMIT, previous);
    }
    is_tightest
}

/// Appends the value of `RateLimit-Policy`, and returns its length.
fn write_policies(text: &mut Vec<u8>, decision: &Decision) -> usize {
    let start = text.len();
    // A limit that is checked with two keys is one policy, so duplicates are skipped.
    let mut written: SmallVec<[_; 4]> = SmallVec::new();

    for limit in enforced(decision).take(LISTED_MAX) {
        let (window, unit) = (limit.window(), limit.unit());
        let policy = (limit.name_bytes(), limit.limit(), window, unit);
        if written.contains(&policy) {
            continue;
        }
        if !written.is_empty() {
            text.extend_from_slice(b", ");
        }
        write_policy(text, limit.name_bytes(), limit.limit(), window, unit);
        written.push(policy);
    }
    text.len() - start
}

/// The value of `RateLimit-Policy` for one limit.
pub(crate) fn policy_value(
    name: &[u8],
    limit: u64,
    window: Option<Duration>,
    unit: QuotaUnit,
) -> Vec<u8> {
    let mut text = Vec::new();
    write_policy(&mut text, name, limit, window, unit);
    text
}

/// Appends a member of `RateLimit-Policy`.
fn write_policy(
    text: &mut Vec<u8>,
    name: &[u8],
    limit: u64,
    window: Option<Duration>,
    unit: QuotaUnit,
) {
    write_name(text, name);
    write_parameter(text, *b";q=", limit);
    if let Some(window) = window {
        write_parameter(text, *b";w=", secs_ceil(window).max(1));
    }
    if let Some(unit) = unit_name(window, unit) {
        text.extend_from_slice(b";qu=\"");
        text.extend_from_slice(unit);
        text.push(b'"');
    }
}

/// The unit of a limit as the draft names it; `None` for its default, `requests`. The draft has no
/// names for tokens, but other units than its own are allowed.
fn unit_name(window: Option<Duration>, unit: QuotaUnit) -> Option<&'static [u8]> {
    match unit {
        _ if window.is_none() => Some(b"concurrent-requests"),
        QuotaUnit::Tokens => Some(b"tokens"),
        QuotaUnit::InputTokens => Some(b"input-tokens"),
        QuotaUnit::OutputTokens => Some(b"output-tokens"),
        QuotaUnit::Bytes => Some(b"content-bytes"),
        _ => None,
    }
}

/// Appends the value of `RateLimit`, and returns its length.
fn write_states(text: &mut Vec<u8>, decision: &Decision) -> usize {
    let start = text.len();
    let latest = decision.retry_after().unwrap_or(Duration::MAX);
    for limit in enforced(decision).take(LISTED_MAX) {
        if text.len() > start {
            text.extend_from_slice(b", ");
        }
        write_name(text, limit.name_bytes());
        write_parameter(text, *b";r=", limit.remaining());
        if let Some(length) = limit.more_after().filter(|length| *length <= latest) {
            write_parameter(text, *b";t=", secs_ceil(length));
        }
    }
    text.len() - start
}

/// Begins a member of a structured list with the quoted name of a limit.
fn write_name(text: &mut Vec<u8>, name: &[u8]) {
    text.push(b'"');
    text.extend_from_slice(name);
    text.push(b'"');
}

/// Appends an integer parameter to a member of a structured list. The key has its `;` and `=`.
fn write_parameter(text: &mut Vec<u8>, key: [u8; 3], value: u64) {
    text.extend_from_slice(&key);
    write_number(text, value.min(INTEGER_MAX));
}

/// Appends a number, and returns its length.
fn write_number(text: &mut Vec<u8>, number: u64) -> usize {
    let start = text.len();
    text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    text.len() - start
}
