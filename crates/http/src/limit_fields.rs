//! The header fields of one limit, as far as they can be written before there is a request.
//!
//! They are the same as [`Fields`](crate::Fields) gives to a request that this limit alone has
//! allowed, for callers that know their limits in advance and have no time to write them again.

use bytes::Bytes;
use http::HeaderMap;
use http::header::HeaderValue;
use smallvec::SmallVec;
use tollgate::{LimitOutcome, Micros, Rule};

use crate::fields::{
    INTEGER_MAX, RATE_LIMIT, RATE_LIMIT_POLICY, X_RATE_LIMIT_REMAINING, X_RATE_LIMIT_RESET,
    insert_limit, policy_value, take_value,
};
use crate::reported::EnabledFields;
use crate::time::micros_secs_ceil;

/// The fields of requests that one limit allows, without the limit's state.
///
/// ```
/// use std::time::Duration;
/// use http::HeaderMap;
/// use tollgate::{Limit, Limiter};
/// use tollgate_http::{EnabledFields, LimitFields};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
/// let fields = LimitFields::new(limiter.rule("api")?, EnabledFields::default());
/// let fields = fields.expect("fields of no vendor's API");
///
/// let decision = limiter.check("api", "ann").try_now()?;
/// let state = fields.state(&decision.limits()[0], limiter.clock().now());
/// let mut headers = HeaderMap::new();
/// fields.add_to(state, &mut headers);
/// assert_eq!(headers["ratelimit-policy"], r#""api";q=100;w=60"#);
/// assert_eq!(headers["ratelimit"], r#""api";r=99;t=60"#);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LimitFields {
    enabled: EnabledFields,
    /// The value of `RateLimit-Policy`.
    policy: HeaderValue,
    /// The value of `X-RateLimit-Limit`.
    limit: HeaderValue,
    /// The beginning of the value of `RateLimit`, up to the units left.
    state_start: Box<[u8]>,
}

/// What the fields say about the state of a limit after a request that it has allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitState {
    /// The units left.
    remaining: u64,
    /// The seconds until more units are available; 0 if there is no such moment.
    more_after_secs: u64,
    /// When the limit is full again, in seconds since the UNIX epoch.
    reset_secs: u64,
}

impl LimitFields {
    /// The fields of a limit with its own quota. `None` if they cannot be written in advance: a
    /// shadow limit has none, and those of a vendor's API depend on more than the limit.
    pub fn new(rule: &Rule, enabled: EnabledFields) -> Option<Self> {
        if rule.is_shadow() || enabled.openai || enabled.anthropic {
            return None;
        }
        let quota = rule.quota();
        let window = quota.window().map(Into::into);
        let policy = policy_value(rule.name().as_bytes(), quota.limit(), window, rule.unit());

        Some(Self {
            enabled,
            policy: HeaderValue::try_from(policy).ok()?,
            limit: quota.limit().into(),
            state_start: format!("\"{}\";r=", rule.name()).into_bytes().into(),
        })
    }

    /// The state of the limit after a request that it has allowed at `now`.
    // Inlined so that the caller builds only what it reads of the outcome.
    #[inline(always)]
    pub fn state(&self, outcome: &LimitOutcome, now: Micros) -> LimitState {
        let outcome = outcome.outcome();
        LimitState {
            remaining: outcome.remaining,
            more_after_secs: micros_secs_ceil(outcome.more_after),
            reset_secs: micros_secs_ceil(now.after(outcome.reset_after)),
        }
    }

    /// Adds the fields to the headers of a response, like
    /// [`Fields::add_to`](crate::Fields::add_to).
    pub fn add_to(&self, state: LimitState, headers: &mut HeaderMap) {
        // One allocation for all values.
        let mut text = StateText::new();
        let [ietf, remaining, reset] = self.write(state, &mut text);
        let mut text = Bytes::from_owner(text);

        if self.enabled.ietf {
            headers.append(RATE_LIMIT_POLICY, self.policy.clone());
        }
        if let Some(value) = take_value(&mut text, ietf) {
            headers.append(RATE_LIMIT, value);
        }

        if self.enabled.legacy && insert_limit(headers, self.limit.clone(), state.remaining) {
            for (name, length) in [
                (X_RATE_LIMIT_REMAINING, remaining),
                (X_RATE_LIMIT_RESET, reset),
            ] {
                if let Some(value) = take_value(&mut text, length) {
                    headers.insert(name, value);
                }
            }
        }
    }

    /// Writes the values of `RateLimit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, and
    /// returns their lengths. Those that are left out are empty.
    fn write(&self, state: LimitState, text: &mut StateText) -> [usize; 3] {
        // Written once for two fields, unless it is too large for one of them.
        let mut digits = itoa::Buffer::new();
        let units = digits.format(state.remaining).as_bytes();

        if self.enabled.ietf {
            text.extend_from_slice(&self.state_start);
            if state.remaining <= INTEGER_MAX {
                text.extend_from_slice(units);
            } else {
                write_number(text, INTEGER_MAX);
            }
            if state.more_after_secs > 0 {
                text.extend_from_slice(b";t=");
                write_number(text, state.more_after_secs.min(INTEGER_MAX));
            }
        }
        let ietf = text.len();
        if !self.enabled.legacy {
            return [ietf, 0, 0];
        }

        text.extend_from_slice(units);
        write_number(text, state.reset_secs);
        [ietf, units.len(), text.len() - ietf - units.len()]
    }
}

/// The values of a response, one after the other. All fit: a name of 47 bytes with its quotes, three
/// parameters and four numbers.
type StateText = SmallVec<[u8; STATE_MAX]>;

/// The length of the longest values together, rounded up.
const STATE_MAX: usize = 128;

fn write_number(text: &mut StateText, number: u64) {
    text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::{Limit, Limiter, ManualClock, MemoryStore, QuotaUnit, Rate};

    use super::*;
    use crate::Fields;

    const LEGACY: EnabledFields = EnabledFields {
        ietf: false,
        legacy: true,
        openai: false,
        anthropic: false,
        retry_after: true,
    };
    const IETF: EnabledFields = EnabledFields {
        ietf: true,
        legacy: false,
        ..LEGACY
    };
    const BOTH: EnabledFields = EnabledFields {
        ietf: true,
        ..LEGACY
    };

    fn limits() -> [Limit; 4] {
        let hour = Duration::from_secs(3_600);
        let long_name = "a-name-with-the-most-characters-that-are-valid/";
        [
            Limit::sliding_window("window", 100, hour),
            Limit::token_bucket("bucket", 7, Rate::per_minute(3)).unit(QuotaUnit::Tokens),
            Limit::fixed_window(long_name, 1 << 53, hour),
            Limit::concurrency("permits", 10, hour),
        ]
    }

    /// The headers of a response that has these already, with the fields that `add` adds.
    fn headers(
        present: &[(&'static str, &'static str)],
        add: impl FnOnce(&mut HeaderMap),
    ) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in present {
            headers.append(*name, HeaderValue::from_static(value));
        }
        add(&mut headers);
        headers
    }

    #[test]
    fn they_are_those_that_a_decision_about_the_limit_alone_has() {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = Limiter::new(store, limits()).unwrap();
        let other = [
            ("ratelimit", r#""other";r=1"#),
            ("x-ratelimit-limit", "9"),
            ("x-ratelimit-remaining", "4"),
        ];

        for limit in limits() {
            let rule = limit.validate().unwrap();
            for (enabled, cost) in [(IETF, 0), (LEGACY, 1), (BOTH, 3), (BOTH, 0)] {
                clock.advance(Duration::from_millis(1_234));
                let check = limiter.check(rule.name(), "ann").cost(cost);
                let (decision, now) = (check.try_now().unwrap(), limiter.clock().now());
                let fields = LimitFields::new(&rule, enabled).unwrap();
                let state = fields.state(&decision.limits()[0], now);

                for present in [&[][..], &other] {
                    let expected = Fields::new(&decision, enabled, now);
                    assert_eq!(
                        headers(present, |headers| fields.add_to(state, headers)),
                        headers(present, |headers| expected.add_to(headers)),
                        "{}, {enabled:?}",
                        rule.name()
                    );
                }
            }
        }
    }

    #[test]
    fn the_longest_values_fit() {
        let [_, _, longest, _] = limits();
        let fields = LimitFields::new(&longest.validate().unwrap(), BOTH).unwrap();
        let state = LimitState {
            remaining: u64::MAX,
            more_after_secs: u64::MAX,
            reset_secs: u64::MAX,
        };
        let headers = headers(&[], |headers| fields.add_to(state, headers));
        assert!(
            headers["ratelimit"]
                .to_str()
                .unwrap()
                .ends_with(";t=999999999999999")
        );
        assert_eq!(headers["x-ratelimit-reset"], u64::MAX.to_string());
    }

    #[test]
    fn a_shadow_limit_and_the_fields_of_a_vendor_have_none() {
        let [window, ..] = limits();
        let shadow = window.clone().shadow().validate().unwrap();
        assert!(LimitFields::new(&shadow, BOTH).is_none());

        let openai = EnabledFields {
            openai: true,
            ..BOTH
        };
        assert!(LimitFields::new(&window.validate().unwrap(), openai).is_none());
    }
}
