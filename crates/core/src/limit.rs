//! A limit: a named rule, and every way in which one can be wrong.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::algorithm::{
    AMOUNT_MAX, Calendar, Concurrency, FixedWindow, IN_FLIGHT_MAX, LeakyBucket, LeakyMode, Quota,
    Rate, SlidingLog, SlidingWindow, TokenBucket,
};
use crate::consistency::Consistency;
use crate::key::{Encoded, EncodedKey, Key, KeyError, KeyPrefix, Parts, ToKey};
use crate::name::{LimitName, NAME_MAX};
use crate::store::{Demand, DemandBuf};

/// A named rule: what it is called and what it allows.
///
/// The constructors take any numbers and keep what is wrong with them:
/// [`Limiter::builder`](crate::Limiter::builder) and [`checked`](Self::checked) report it, and a
/// limiter built without asking answers every check of that limit with it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Rate};
///
/// let api = Limit::sliding_window("api", 100, Duration::from_secs(60)).checked()?;
/// let reports = Limit::token_bucket("reports", 5, Rate::per_minute(6)).checked()?;
///
/// let wrong = Limit::sliding_window("api", 0, Duration::from_secs(60)).checked().unwrap_err();
/// assert_eq!(wrong.to_string(), "limit is 0; it must be from 1 to 9007199254740992 (2^53)");
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limit {
    name: String,
    rule: Result<Rule, LimitError>,
    shadow: bool,
    on_store_failure: FailurePolicy,
    consistency: Consistency,
}

/// A limit whose name and numbers are right.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    name: LimitName,
    quota: Quota,
    prefix: KeyPrefix,
    shadow: bool,
    on_store_failure: FailurePolicy,
    consistency: Consistency,
}

/// What a limit answers when its store gives no answer. The memory store always gives one.
///
/// | policy | a request | choose it where |
/// |---|---|---|
/// | `Allow` | passes, uncounted | an unlimited minute is better than a lost one: most public APIs |
/// | `Deny` | is refused for the time being (HTTP 503) | nothing must pass uncounted: logins, payments |
/// | `Local` | is counted in this process, against its share of the limit | neither will do |
///
/// The share is the limit divided by
/// [`expected_replicas`](crate::limiter::LimiterBuilder::expected_replicas), see [`Quota::share`].
/// It starts with nothing, so that nothing can be gained by making the store fall over.
///
/// ```
/// # use tollgate::store::{StoreFuture, Intent, SpendReply};
/// # use tollgate::{Demand, Key, PermitId, Store, StoreError};
/// # #[derive(Debug)]
/// # struct Away;
/// # impl Store for Away {
/// #     fn spend<'a>(&'a self, _: &[Demand<'_>], _: Intent, _: PermitId) -> StoreFuture<'a, SpendReply> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// #     fn refund<'a>(&'a self, _: &[Demand<'_>]) -> StoreFuture<'a, ()> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// #     fn reset<'a>(&'a self, _: &Key<'_>) -> StoreFuture<'a, ()> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// #     fn release<'a>(&'a self, _: &Demand<'_>, _: PermitId) -> StoreFuture<'a, bool> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// #     fn renew<'a>(&'a self, _: &Demand<'_>, _: PermitId) -> StoreFuture<'a, bool> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// # }
/// # let store = Away;
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, FailurePolicy};
///
/// let login = Limit::sliding_log("login", 5, Duration::from_secs(900)).on_store_failure(FailurePolicy::Deny);
/// let search = Limit::sliding_window("search", 100, Duration::from_secs(60));
/// let limiter = Limiter::new(store, [login, search]); // a store that is away
///
/// let passed = limiter.check("search", "ann").now_or_never()?;
/// assert!(passed.is_allowed() && passed.is_degraded());
/// assert_eq!(passed.limits()[0].fallback(), Some(FailurePolicy::Allow));
///
/// let refused = limiter.check("login", "ann").now_or_never()?;
/// assert!(refused.is_unavailable()); // 503, not 429
/// assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FailurePolicy {
    /// Let requests pass, uncounted.
    #[default]
    Allow,
    /// Refuse requests.
    Deny,
    /// Count in this process, against its share of the limit.
    Local,
}

impl FailurePolicy {
    /// The word used in answers and configurations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Local => "local",
        }
    }
}

impl Limit {
    /// A limit with this name and quota.
    pub fn new(name: impl Into<String>, quota: impl Into<Quota>) -> Self {
        Self::from_parts(name.into(), Ok(quota.into()))
    }

    /// `limit` per window that starts with a key's first hit. See [`FixedWindow`] for its known
    /// flaw.
    pub fn fixed_window(name: impl Into<String>, limit: u64, window: Duration) -> Self {
        Self::from_parts(name.into(), FixedWindow::new(limit, window).map(Into::into))
    }

    /// `limit` per calendar unit in UTC.
    pub fn calendar_window(name: impl Into<String>, limit: u64, unit: Calendar) -> Self {
        Self::from_parts(
            name.into(),
            FixedWindow::aligned(limit, unit).map(Into::into),
        )
    }

    /// `limit` per sliding window, by two weighted counts: the default for plain API limits.
    pub fn sliding_window(name: impl Into<String>, limit: u64, window: Duration) -> Self {
        Self::from_parts(
            name.into(),
            SlidingWindow::new(limit, window).map(Into::into),
        )
    }

    /// `limit` in any interval of the window's length, exactly, at the price of remembering every
    /// hit.
    pub fn sliding_log(name: impl Into<String>, limit: u64, window: Duration) -> Self {
        Self::from_parts(name.into(), SlidingLog::new(limit, window).map(Into::into))
    }

    /// Bursts of `capacity`, refilled at `rate`.
    pub fn token_bucket(name: impl Into<String>, capacity: u64, rate: Rate) -> Self {
        Self::from_parts(
            name.into(),
            TokenBucket::new(capacity, rate).map(Into::into),
        )
    }

    /// A bucket that leaks at `rate` and refuses what would overflow its `capacity`.
    pub fn leaky_bucket(name: impl Into<String>, capacity: u64, rate: Rate) -> Self {
        Self::from_parts(
            name.into(),
            LeakyBucket::new(LeakyMode::Meter, capacity, rate).map(Into::into),
        )
    }

    /// A queue of `capacity` that lets requests out at `rate`.
    pub fn queue(name: impl Into<String>, capacity: u64, rate: Rate) -> Self {
        Self::from_parts(
            name.into(),
            LeakyBucket::new(LeakyMode::Queue, capacity, rate).map(Into::into),
        )
    }

    /// At most `limit` in flight; a holder that dies frees its place after `lease`.
    pub fn concurrency(name: impl Into<String>, limit: u64, lease: Duration) -> Self {
        Self::from_parts(name.into(), Concurrency::new(limit, lease).map(Into::into))
    }

    /// Counts and reports, and never refuses: for trying a limit out on real traffic.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.shadow = true;
        self
    }

    /// What to answer when the store gives no answer; to allow if nothing is said.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, FailurePolicy};
    ///
    /// let login = Limit::sliding_log("login", 5, Duration::from_secs(900)).on_store_failure(FailurePolicy::Deny);
    /// assert_eq!(login.rule()?.on_store_failure(), FailurePolicy::Deny);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn on_store_failure(mut self, policy: FailurePolicy) -> Self {
        self.on_store_failure = policy;
        self
    }

    /// Who shares the counters; everyone on the same store if nothing is said.
    #[must_use]
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// The name as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limit, or what is wrong with it.
    pub fn validate(self) -> Result<Self, LimitError> {
        self.rule().map(|_| self)
    }

    /// The rule this limit states, or what is wrong with it.
    pub fn rule(&self) -> Result<Rule, LimitError> {
        let (shadow, on_store_failure, consistency) =
            (self.shadow, self.on_store_failure, self.consistency);
        self.rule.clone().map(|rule| {
            let consistency = consistency.for_quota(&rule.quota);
            let prefix = rule.prefix.with_consistency(consistency);
            Rule {
                prefix,
                shadow,
                on_store_failure,
                consistency,
                ..rule
            }
        })
    }

    fn from_parts(name: String, quota: Result<Quota, LimitError>) -> Self {
        let rule = LimitName::new(&name).and_then(|checked| {
            let quota = quota?;
            let prefix = KeyPrefix::new(checked, quota.shape());
            let (on_store_failure, consistency) =
                (FailurePolicy::default(), Consistency::default());
            Ok(Rule {
                name: checked,
                quota,
                prefix,
                shadow: false,
                on_store_failure,
                consistency,
            })
        });
        let (on_store_failure, consistency) = (FailurePolicy::default(), Consistency::default());
        Self {
            name,
            rule,
            shadow: false,
            on_store_failure,
            consistency,
        }
    }
}

impl Rule {
    /// What the limit is called.
    pub const fn name(&self) -> LimitName {
        self.name
    }

    /// What it allows, unless a call says otherwise.
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// True when it never refuses.
    pub const fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// What it answers when the store gives no answer.
    pub const fn on_store_failure(&self) -> FailurePolicy {
        self.on_store_failure
    }

    /// Who shares its counters, and how. Queues and places in flight are strict also where
    /// something else was asked for.
    pub const fn consistency(&self) -> Consistency {
        self.consistency
    }

    /// The same rule where so many processes share its counters.
    pub(crate) const fn shared_by(self, replicas: NonZeroU32) -> Self {
        Self {
            prefix: self.prefix.with_replicas(replicas),
            ..self
        }
    }

    /// A check of this limit for a key, with the limit's own numbers, to put to a
    /// [`Store`](crate::Store) directly.
    pub fn demand(&self, key: impl ToKey, cost: u64) -> Result<DemandBuf, KeyError> {
        let mut buffer = Encoded::new();
        let parts = Parts::of(&key, &mut buffer)?;
        Ok(self.demand_with(parts, &self.quota, cost).to_buf())
    }

    /// The same for a key that is written down, borrowing all there is. The numbers are the limit's
    /// own, or others of its algorithm and window.
    #[inline]
    pub fn demand_for<'a>(
        &'a self,
        key: &'a EncodedKey,
        quota: &'a Quota,
        cost: u64,
    ) -> Demand<'a> {
        self.demand_with(key.as_parts(), quota, cost)
    }

    #[inline]
    pub(crate) const fn demand_with<'a>(
        &'a self,
        parts: Parts<'a>,
        quota: &'a Quota,
        cost: u64,
    ) -> Demand<'a> {
        Demand {
            key: Key::new(&self.prefix, parts),
            quota,
            cost,
            shadow: self.shadow,
        }
    }
}

/// What is wrong with a limit, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The name is the empty string.
    #[error("a limit's name is empty; give it 1 to {NAME_MAX} letters, digits or any of - _ . : /")]
    EmptyName,
    /// The name is too long.
    #[error("the name {found:?} has {bytes} bytes; a limit's name has at most {NAME_MAX}")]
    LongName {
        /// Its beginning.
        found: String,
        /// Its length.
        bytes: usize,
    },
    /// The name holds a character that cannot travel in a header, a metric and a key alike.
    #[error(
        "the name {name:?} has the character {found:?}; use letters, digits or any of - _ . : /"
    )]
    NameCharacter {
        /// The name.
        name: String,
        /// The first such character.
        found: char,
    },
    /// Two limits have the same name.
    #[error("two limits are named {name:?}; names must differ, or their counts would mix")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A limit or a capacity out of range.
    #[error("{field} is {found}; it must be from 1 to {AMOUNT_MAX} (2^53)")]
    Amount {
        /// Which number.
        field: &'static str,
        /// Its value.
        found: u64,
    },
    /// A window, or a lease, out of range.
    #[error(
        "the window {found:?} is out of range; it must be whole microseconds from 1ms to 3653d (ten years)"
    )]
    Window {
        /// Its length.
        found: Duration,
    },
    /// A rate out of range.
    #[error(
        "the rate {found} is out of range; it must be from 1 per 30d to 10000000 per 1s, over whole microseconds"
    )]
    Rate {
        /// The rate.
        found: Rate,
    },
    /// A bucket that would take more than a lifetime to fill.
    #[error(
        "a capacity of {capacity} at {rate} takes over 100 years to fill; use a smaller one or a faster rate"
    )]
    SlowRefill {
        /// The capacity.
        capacity: u64,
        /// The rate.
        rate: Rate,
    },
    /// Too many in flight, or none.
    #[error("a concurrency limit of {found} is out of range; it must be from 1 to {IN_FLIGHT_MAX}")]
    InFlight {
        /// The limit.
        found: u64,
    },
}
