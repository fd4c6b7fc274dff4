//! Limits: a name, a quota and options.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::algorithm::{
    AMOUNT_MAX, Calendar, Concurrency, FixedWindow, LeakyBucket, LeakyMode, Lockout, Quota, Rate,
    SlidingLog, SlidingWindow, TokenBucket,
};
use crate::consistency::Consistency;
use crate::key::KeyPrefix;
pub use crate::limit_error::LimitError;
use crate::name::LimitName;

/// The default of [`Limit::reservation_max`].
pub(crate) const RESERVATION_MAX_DEFAULT: f64 = 0.5;
const MILLION: f64 = 1e6;

/// A named limit: what it allows, and how it behaves.
///
/// The constructors accept any numbers. [`validate`](Self::validate) returns the [`Rule`], or what is
/// wrong with the limit; so does every way to create a [`Limiter`](crate::Limiter).
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Rate};
///
/// let api = Limit::sliding_window("api", 100, Duration::from_secs(60)).validate()?;
/// let reports = Limit::token_bucket("reports", 5, Rate::per_minute(6)).validate()?;
///
/// let error = Limit::sliding_window("api", 0, Duration::from_secs(60)).validate().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "limit 0 is out of range; must be between 1 and 9007199254740992 (2^53)"
/// );
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limit {
    name: String,
    quota: Result<Quota, LimitError>,
    shadow: bool,
    unit: QuotaUnit,
    on_store_failure: FailurePolicy,
    consistency: Consistency,
    debt_max: u64,
    reservation_max: f64,
    on_reservation_expiry: ReservationExpiry,
    lockout: Option<Lockout>,
}

/// A validated limit: what demands refer to, and all that a store needs to know of it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    name: LimitName,
    quota: Quota,
    prefix: KeyPrefix,
    shadow: bool,
    unit: QuotaUnit,
    on_store_failure: FailurePolicy,
    on_reservation_expiry: ReservationExpiry,
    position: u32,
    /// The most units that one reservation may take, in millionths of the limit.
    reservation_millionths: u32,
    debt_max: u64,
    lockout: Option<Lockout>,
}

/// What happens to the units of a reservation that is not settled in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum ReservationExpiry {
    /// They stay charged. The default: work that was never settled may have been done.
    #[default]
    Keep,
    /// They are returned.
    Release,
}

impl ReservationExpiry {
    /// The name in configurations: `keep` or `release`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Release => "release",
        }
    }
}

/// What the units of a limit are. It changes no decision: header fields tell it to clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum QuotaUnit {
    /// Requests, or permits of a concurrency limit. The default.
    #[default]
    Requests,
    /// Tokens of a language model.
    Tokens,
    /// Tokens that a language model reads.
    InputTokens,
    /// Tokens that a language model writes.
    OutputTokens,
    /// Bytes of the content of messages.
    Bytes,
}

/// What a limit does while its store is unavailable. The memory store is always available.
///
/// | policy | a request | use it for |
/// |---|---|---|
/// | `Allow` | passes, uncounted | availability before accuracy: most public APIs |
/// | `Deny` | is denied for now | what must never pass uncounted: logins, payments |
/// | `Local` | is counted in this process, against its share of the limit | everything in between |
///
/// The share is the limit divided by
/// [`expected_replicas`](crate::limiter::LimiterBuilder::expected_replicas); see [`Quota::share`].
/// A key starts from its whole share. If the store has denied it, it starts from its share of what
/// was left, usually nothing: an attacker whose requests are denied gains nothing by causing an
/// outage.
///
/// ```
/// # use tollgate::store::{Intent, Settlement, SettlementKind, SpendReply, StoreFuture};
/// # use tollgate::{Demand, Key, PermitId, Store, StoreError};
/// # #[derive(Debug)]
/// # struct UnavailableStore;
/// # impl Store for UnavailableStore {
/// #     fn spend<'a>(
/// #         &'a self,
/// #         _: &[Demand<'_>],
/// #         _: Intent,
/// #         _: PermitId,
/// #     ) -> StoreFuture<'a, SpendReply> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// #     fn refund<'a>(&'a self, _: &[Demand<'_>]) -> StoreFuture<'a, ()> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// #     fn settle<'a>(
/// #         &'a self,
/// #         _: &[Settlement<'_>],
/// #         _: PermitId,
/// #     ) -> StoreFuture<'a, Vec<SettlementKind>> {
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
/// # let unavailable_store = UnavailableStore;
/// use std::time::Duration;
/// use tollgate::{FailurePolicy, Limit, Limiter};
///
/// let login = Limit::sliding_log("login", 5, Duration::from_secs(900))
///     .on_store_failure(FailurePolicy::Deny);
/// let search = Limit::sliding_window("search", 100, Duration::from_secs(60));
/// let limiter = Limiter::new(unavailable_store, [login, search])?;
///
/// # pollster::block_on(async {
/// let allowed = limiter.check("search", "ann").await?;
/// assert!(allowed.is_allowed() && allowed.is_degraded());
/// assert_eq!(allowed.limits()[0].fallback(), Some(FailurePolicy::Allow));
///
/// let denied = limiter.check("login", "ann").await?;
/// assert!(denied.is_unavailable()); // 503, not 429
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
/// # Ok::<(), tollgate::Error>(())
/// # })?;
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum FailurePolicy {
    /// Allow requests without counting them. The default.
    #[default]
    Allow,
    /// Deny requests.
    Deny,
    /// Count requests in this process, against its share of the limit.
    Local,
}

impl FailurePolicy {
    /// The policy's name in response bodies and configurations: `allow`, `deny` or `local`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Local => "local",
        }
    }
}

impl Limit {
    /// Creates a limit with this name and quota.
    pub fn new(name: impl Into<String>, quota: impl Into<Quota>) -> Self {
        Self::from_parts(name, Ok(quota))
    }

    /// Allows `limit` units per window. A key's window starts with its first request. See
    /// [`FixedWindow`] for what can pass around a window's edge.
    pub fn fixed_window(name: impl Into<String>, limit: u64, window: Duration) -> Self {
        Self::from_parts(name, FixedWindow::new(limit, window))
    }

    /// Allows `limit` units per calendar unit, in UTC.
    pub fn calendar_window(name: impl Into<String>, limit: u64, unit: Calendar) -> Self {
        Self::from_parts(name, FixedWindow::aligned(limit, unit))
    }

    /// Allows `limit` units per sliding window, estimated from the counts of two windows. This is a
    /// good default for API limits.
    pub fn sliding_window(name: impl Into<String>, limit: u64, window: Duration) -> Self {
        Self::from_parts(name, SlidingWindow::new(limit, window))
    }

    /// Allows exactly `limit` units in any interval of the window's length. The store remembers
    /// every request of the window.
    pub fn sliding_log(name: impl Into<String>, limit: u64, window: Duration) -> Self {
        Self::from_parts(name, SlidingLog::new(limit, window))
    }

    /// Allows bursts of up to `capacity` units, refilled at `rate`.
    pub fn token_bucket(name: impl Into<String>, capacity: u64, rate: Rate) -> Self {
        Self::from_parts(name, TokenBucket::new(capacity, rate))
    }

    /// A bucket that leaks at `rate` and denies what would overflow its `capacity`.
    pub fn leaky_bucket(name: impl Into<String>, capacity: u64, rate: Rate) -> Self {
        Self::from_parts(name, LeakyBucket::new(LeakyMode::Meter, capacity, rate))
    }

    /// A queue that holds up to `capacity` units and releases them at `rate`. An allowed request
    /// must wait in the queue first: see [`Decision::wait`](crate::Decision::wait) and
    /// [`Check::wait_in_queue`](crate::limiter::Check::wait_in_queue).
    pub fn queue(name: impl Into<String>, capacity: u64, rate: Rate) -> Self {
        Self::from_parts(name, LeakyBucket::new(LeakyMode::Queue, capacity, rate))
    }

    /// Allows at most `limit` units in flight. A permit that is neither released nor renewed ends
    /// after `permit_timeout`, so a crashed client does not hold it forever.
    pub fn concurrency(name: impl Into<String>, limit: u64, permit_timeout: Duration) -> Self {
        Self::from_parts(name, Concurrency::new(limit, permit_timeout))
    }

    /// Makes this a shadow limit: it counts and reports, and never denies a request. Use it to try
    /// a limit on real traffic.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.shadow = true;
        self
    }

    /// Sets what the units of the limit are. Defaults to [`QuotaUnit::Requests`].
    ///
    /// ```
    /// use tollgate::{Limit, QuotaUnit, Rate};
    ///
    /// let tokens = Limit::token_bucket("tokens", 40_000, Rate::per_minute(40_000))
    ///     .unit(QuotaUnit::Tokens);
    /// assert_eq!(tokens.validate()?.unit(), QuotaUnit::Tokens);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn unit(mut self, unit: QuotaUnit) -> Self {
        self.unit = unit;
        self
    }

    /// Sets what the limit does while the store is unavailable. Defaults to
    /// [`FailurePolicy::Allow`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{FailurePolicy, Limit};
    ///
    /// let login = Limit::sliding_log("login", 5, Duration::from_secs(900))
    ///     .on_store_failure(FailurePolicy::Deny);
    /// assert_eq!(login.validate()?.on_store_failure(), FailurePolicy::Deny);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn on_store_failure(mut self, policy: FailurePolicy) -> Self {
        self.on_store_failure = policy;
        self
    }

    /// Sets how replicas share the limit's counters. Defaults to [`Consistency::Strict`].
    #[must_use]
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// Sets the most units that a counter may owe. What is counted or settled beyond it is not
    /// charged. Defaults to [`AMOUNT_MAX`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let tokens = Limit::fixed_window("tokens", 100, Duration::from_secs(60)).debt_max(50);
    /// let limiter = Limiter::in_memory([tokens])?;
    /// let decision = limiter.count("tokens", "ann").cost(1_000).try_now()?;
    /// assert!(!decision.is_allowed());
    ///
    /// // The counter owes 50 of the 900 units, so a refund of 51 leaves one.
    /// limiter.refund("tokens", "ann").cost(51).await?;
    /// assert_eq!(limiter.peek("tokens", "ann").cost(0).await?.remaining(), 1);
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn debt_max(mut self, units: u64) -> Self {
        self.debt_max = units;
        self
    }

    /// Sets the largest share of the limit that one reservation may take, greater than 0 and at
    /// most 1. An estimate above it is reduced. Defaults to 0.5.
    #[must_use]
    pub fn reservation_max(mut self, share: f64) -> Self {
        self.reservation_max = share;
        self
    }

    /// Sets what happens to the units of a reservation that is not settled in time. Defaults to
    /// [`ReservationExpiry::Keep`].
    #[must_use]
    pub fn on_reservation_expiry(mut self, expiry: ReservationExpiry) -> Self {
        self.on_reservation_expiry = expiry;
        self
    }

    /// Locks a key out that is denied too often. It needs a limit that counts requests, not a queue
    /// or a concurrency limit, and a consistency that counts every denial: `Strict` or `Local`.
    #[must_use]
    pub fn lockout(mut self, lockout: Lockout) -> Self {
        self.lockout = Some(lockout);
        self
    }

    /// The limit's name, which may be invalid.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The validated limit, or what is wrong with it.
    pub fn validate(&self) -> Result<Rule, LimitError> {
        let (name, quota) = (LimitName::new(&self.name)?, self.quota.clone()?);
        let consistency = self.consistency.for_quota(&quota);
        if self.lockout.is_some() {
            validate_lockout(&quota, consistency)?;
        }

        Ok(Rule {
            name,
            quota,
            prefix: KeyPrefix::new(name, quota.shape()).with_consistency(consistency),
            shadow: self.shadow,
            unit: self.unit,
            on_store_failure: self.on_store_failure,
            on_reservation_expiry: self.on_reservation_expiry,
            position: 0,
            reservation_millionths: reservation_millionths(self.reservation_max)?,
            debt_max: self.debt_max.min(AMOUNT_MAX),
            lockout: self.lockout,
        })
    }

    fn from_parts(name: impl Into<String>, quota: Result<impl Into<Quota>, LimitError>) -> Self {
        Self {
            name: name.into(),
            quota: quota.map(Into::into),
            shadow: false,
            unit: QuotaUnit::default(),
            on_store_failure: FailurePolicy::default(),
            consistency: Consistency::default(),
            debt_max: AMOUNT_MAX,
            reservation_max: RESERVATION_MAX_DEFAULT,
            on_reservation_expiry: ReservationExpiry::default(),
            lockout: None,
        }
    }
}

/// Checks that a limit of this quota and consistency can lock keys out.
fn validate_lockout(quota: &Quota, consistency: Consistency) -> Result<(), LimitError> {
    let algorithm = match quota {
        Quota::Concurrency(_) => Some("a concurrency limit"),
        Quota::LeakyBucket(bucket) if bucket.mode() == LeakyMode::Queue => Some("a queue"),
        _ => None,
    };
    if let Some(found) = algorithm {
        return Err(LimitError::LockoutAlgorithm { found });
    }
    if matches!(consistency, Consistency::Leased | Consistency::Eventual) {
        let found = consistency.as_str();
        return Err(LimitError::LockoutConsistency { found });
    }
    Ok(())
}

/// A share of a limit in millionths, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked"
)]
fn reservation_millionths(share: f64) -> Result<u32, LimitError> {
    if share > 0.0 && share <= 1.0 {
        Ok((share * MILLION).ceil() as u32)
    } else {
        let found = share.to_string();
        Err(LimitError::ReservationMax { found })
    }
}

/// A valid limit, for example to give a rule of a configuration to a limiter.
impl From<Rule> for Limit {
    fn from(rule: Rule) -> Self {
        Self {
            name: rule.name.to_string(),
            quota: Ok(rule.quota),
            shadow: rule.shadow,
            unit: rule.unit,
            on_store_failure: rule.on_store_failure,
            consistency: rule.consistency(),
            debt_max: rule.debt_max,
            reservation_max: rule.reservation_max(),
            on_reservation_expiry: rule.on_reservation_expiry,
            lockout: rule.lockout,
        }
    }
}

impl Rule {
    /// The limit's name.
    pub const fn name(&self) -> &LimitName {
        &self.name
    }

    /// The limit's quota. A check can replace it for one caller, see
    /// [`Check::quota`](crate::limiter::Check::quota).
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// True for a shadow limit, which never denies a request.
    pub const fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// What the units of the limit are.
    pub const fn unit(&self) -> QuotaUnit {
        self.unit
    }

    /// What the limit does while the store is unavailable.
    pub const fn on_store_failure(&self) -> FailurePolicy {
        self.on_store_failure
    }

    /// The most units that a counter may owe.
    pub const fn debt_max(&self) -> u64 {
        self.debt_max
    }

    /// When a key of the limit is locked out; `None` if never.
    #[inline]
    pub const fn lockout(&self) -> Option<&Lockout> {
        self.lockout.as_ref()
    }

    /// The largest share of the limit that one reservation may take.
    pub fn reservation_max(&self) -> f64 {
        f64::from(self.reservation_millionths) / MILLION
    }

    /// What a reservation of this estimate takes of a quota: the estimate, or the largest share
    /// that one reservation may take, at least 1. A concurrency limit takes the estimate.
    pub(crate) fn reserved_units(&self, quota: &Quota, estimate: u64) -> u64 {
        if matches!(quota, Quota::Concurrency(_)) {
            return estimate;
        }
        let most = u128::from(quota.limit()) * u128::from(self.reservation_millionths) / 1_000_000;
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        estimate.min(most.max(1))
    }

    /// What happens to the units of a reservation that is not settled in time.
    #[inline]
    pub const fn on_reservation_expiry(&self) -> ReservationExpiry {
        self.on_reservation_expiry
    }

    /// How replicas share the limit's counters: what the limit was created with, as far as its
    /// algorithm supports it. See [`Consistency::for_quota`].
    #[inline]
    pub const fn consistency(&self) -> Consistency {
        self.prefix.consistency()
    }

    /// How many replicas are expected to share the limit's counters.
    pub const fn replicas(&self) -> NonZeroU32 {
        self.prefix.replicas()
    }

    /// The number that the owner of the rule gave it, such as its position in a configuration.
    #[inline]
    pub const fn position(&self) -> usize {
        self.position as usize
    }

    /// The same rule, with counters that this many replicas are expected to share. Defaults to 1.
    #[must_use]
    pub const fn with_replicas(self, replicas: NonZeroU32) -> Self {
        Self {
            prefix: self.prefix.with_replicas(replicas),
            ..self
        }
    }

    /// The same rule with another quota, which must have its algorithm and window.
    #[must_use]
    pub const fn with_quota(self, quota: Quota) -> Self {
        Self { quota, ..self }
    }

    /// The same rule, as a shadow limit or not.
    #[must_use]
    pub const fn with_shadow(self, shadow: bool) -> Self {
        Self { shadow, ..self }
    }

    /// The same rule with a number by which its owner finds it again. Defaults to 0.
    #[must_use]
    pub const fn with_position(self, position: u32) -> Self {
        Self { position, ..self }
    }

    /// The limit's name as bytes, which needs no UTF-8 validation.
    #[inline]
    pub(crate) fn name_bytes(&self) -> &[u8] {
        self.name.as_bytes()
    }

    #[inline]
    pub(crate) const fn prefix(&self) -> &KeyPrefix {
        &self.prefix
    }
}
