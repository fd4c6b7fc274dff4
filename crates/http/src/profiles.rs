//! The header fields of language model APIs, for clients that were written for them.
//!
//! Both vendors have three fields per unit: the size of the limit, the units left, and when all of
//! them are available again. They describe one limit per unit, so of several the tightest is shown.
//! Concurrency limits have no such fields.

use std::cmp::Reverse;
use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use tollgate::{Decision, LimitOutcome, Micros, QuotaUnit};

use crate::reported::{EnabledFields, enforced};
use crate::time::{millis_ceil, secs_ceil};

/// The three fields of one unit.
#[derive(Clone, Debug)]
pub(crate) struct ProfileFields {
    /// The names of the fields for the size, the units left and the reset time, in lower case.
    names: &'static [&'static str; 3],
    values: [HeaderValue; 3],
    /// The units left.
    remaining: u64,
}

/// The names of the fields of one unit, and whether a limit counts in that unit.
type UnitNames = ([&'static str; 3], fn(QuotaUnit) -> bool);

const OPENAI: &[UnitNames] = &[
    (
        [
            "x-ratelimit-limit-requests",
            "x-ratelimit-remaining-requests",
            "x-ratelimit-reset-requests",
        ],
        is_requests,
    ),
    (
        [
            "x-ratelimit-limit-tokens",
            "x-ratelimit-remaining-tokens",
            "x-ratelimit-reset-tokens",
        ],
        is_tokens,
    ),
];
const ANTHROPIC: &[UnitNames] = &[
    (
        [
            "anthropic-ratelimit-requests-limit",
            "anthropic-ratelimit-requests-remaining",
            "anthropic-ratelimit-requests-reset",
        ],
        is_requests,
    ),
    (
        [
            "anthropic-ratelimit-tokens-limit",
            "anthropic-ratelimit-tokens-remaining",
            "anthropic-ratelimit-tokens-reset",
        ],
        is_tokens,
    ),
    (
        [
            "anthropic-ratelimit-input-tokens-limit",
            "anthropic-ratelimit-input-tokens-remaining",
            "anthropic-ratelimit-input-tokens-reset",
        ],
        |unit| unit == QuotaUnit::InputTokens,
    ),
    (
        [
            "anthropic-ratelimit-output-tokens-limit",
            "anthropic-ratelimit-output-tokens-remaining",
            "anthropic-ratelimit-output-tokens-reset",
        ],
        |unit| unit == QuotaUnit::OutputTokens,
    ),
];

fn is_requests(unit: QuotaUnit) -> bool {
    unit == QuotaUnit::Requests
}

/// Limits of any tokens: both vendors show the tightest of them as that of tokens.
fn is_tokens(unit: QuotaUnit) -> bool {
    use QuotaUnit::{InputTokens, OutputTokens, Tokens};
    matches!(unit, Tokens | InputTokens | OutputTokens)
}

/// The fields of the enabled profiles, of a decision that was made at `now`.
pub(crate) fn profile_fields(
    decision: &Decision,
    enabled: EnabledFields,
    now: Micros,
) -> Vec<ProfileFields> {
    let openai = OPENAI
        .iter()
        .filter(|_| enabled.openai)
        .filter_map(|unit| ProfileFields::new(unit, decision, duration_text));
    let anthropic = ANTHROPIC
        .iter()
        .filter(|_| enabled.anthropic)
        .filter_map(|unit| {
            ProfileFields::new(unit, decision, |reset_after| time_text(now, reset_after))
        });
    openai.chain(anthropic).collect()
}

impl ProfileFields {
    /// The fields of one unit; `None` if no limit counts in it.
    fn new(
        (names, counts): &'static UnitNames,
        decision: &Decision,
        reset_text: impl Fn(Duration) -> String,
    ) -> Option<Self> {
        let limits =
            enforced(decision).filter(|limit| limit.window().is_some() && counts(limit.unit()));
        let tightest = limits.min_by_key(|limit| tightness(limit))?;

        let reset = HeaderValue::try_from(reset_text(tightest.reset_after())).ok()?;
        Some(Self {
            names,
            values: [tightest.limit().into(), tightest.remaining().into(), reset],
            remaining: tightest.remaining(),
        })
    }

    /// Adds the fields, unless those of another layer describe a limit with no more units left.
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        let other = headers
            .get(self.names[1])
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.parse::<u64>().ok());
        if other.is_none_or(|other| other > self.remaining) {
            for (name, value) in self.into_pairs() {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }

    /// The names and values.
    pub(crate) fn into_pairs(self) -> impl Iterator<Item = (&'static str, HeaderValue)> {
        self.names.iter().copied().zip(self.values)
    }
}

/// Orders limits, the tightest first: those that deny longest, then those with the fewest units
/// left, then those that take longest to reset.
fn tightness(limit: &LimitOutcome) -> impl Ord + use<> {
    (
        Reverse(limit.retry()),
        limit.remaining(),
        Reverse(limit.reset_after()),
    )
}

/// A length such as `12ms`, `1s`, `6m0s` or `1h0m0s`, rounded up to its smallest unit.
fn duration_text(length: Duration) -> String {
    let millis = millis_ceil(length);
    if (1..1_000).contains(&millis) {
        return format!("{millis}ms");
    }

    let secs = secs_ceil(length);
    let (hours, minutes, seconds) = (secs / 3_600, secs / 60 % 60, secs % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// The moment `length` after `now` in RFC 3339, rounded up to a second.
fn time_text(now: Micros, length: Duration) -> String {
    let secs = secs_ceil(Duration::from(now).saturating_add(length));
    // No limit lasts beyond the year 9999, the last one that can be written.
    let time = i64::try_from(secs)
        .ok()
        .and_then(|secs| jiff::Timestamp::from_second(secs).ok());
    time.unwrap_or(jiff::Timestamp::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_up_to_their_smallest_unit() {
        let text = |micros| duration_text(Duration::from_micros(micros));
        assert_eq!(text(0), "0s");
        assert_eq!(text(1), "1ms");
        assert_eq!(text(12_000), "12ms");
        assert_eq!(text(999_001), "1s");
        assert_eq!(text(1_000_001), "2s");
        assert_eq!(text(59_000_001), "1m0s");
        assert_eq!(text(360_000_000), "6m0s");
        assert_eq!(text(3_600_000_000), "1h0m0s");
        assert_eq!(text(90_061_000_000), "25h1m1s");
    }

    #[test]
    fn times_are_rounded_up_to_a_second() {
        let now = Micros::from_millis(1_798_761_600_001);
        assert_eq!(time_text(now, Duration::ZERO), "2027-01-01T00:00:01Z");
        assert_eq!(
            time_text(Micros::ZERO, Duration::from_mins(1)),
            "1970-01-01T00:01:00Z"
        );
        assert!(time_text(now, Duration::MAX).starts_with("9999-12-30T"));
    }
}
