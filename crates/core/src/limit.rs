//! Limits: a name, a quota and options.

mod options;
mod rule;

use std::time::Duration;

use crate::algorithm::{
    AMOUNT_MAX, Calendar, Concurrency, FixedWindow, LeakyBucket, LeakyMode, Lockout, Quota, Rate,
    SlidingLog, SlidingWindow, TokenBucket,
};
use crate::consistency::Consistency;
use crate::key::KeyPrefix;
pub use crate::limit_error::LimitError;
use crate::name::LimitName;

pub use options::{FailurePolicy, QuotaUnit, ReservationExpiry};
use rule::MILLION;
pub use rule::Rule;

/// The default of [`Limit::reservation_max`].
pub(crate) const RESERVATION_MAX_DEFAULT: f64 = 0.5;

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
    debt_max: Option<u64>,
    reservation_max: f64,
    on_reservation_expiry: ReservationExpiry,
    lockout: Option<Lockout>,
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
    /// charged. Defaults to ten times the limit.
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
        self.debt_max = Some(units);
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
            quota,
            prefix: KeyPrefix::new(name, quota.shape()).with_consistency(consistency),
            shadow: self.shadow,
            unit: self.unit,
            on_store_failure: self.on_store_failure,
            on_reservation_expiry: self.on_reservation_expiry,
            position: 0,
            reservation_millionths: reservation_millionths(self.reservation_max)?,
            debt_max: self.debt_max.map(|units| units.min(AMOUNT_MAX)),
            lockout: self.lockout,
            has_share: true,
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
            debt_max: None,
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
            name: rule.name().to_string(),
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
