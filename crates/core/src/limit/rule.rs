//! A validated limit.

use std::num::NonZeroU32;

use super::options::{FailurePolicy, QuotaUnit, ReservationExpiry};
use crate::algorithm::{AMOUNT_MAX, Lockout, Quota};
use crate::consistency::Consistency;
use crate::key::KeyPrefix;
use crate::name::LimitName;

/// The unit of the share of a limit that one reservation may take.
pub(super) const MILLION: f64 = 1e6;
/// By default a counter may owe this many times its limit.
const DEBT_LIMITS: u64 = 10;

/// A validated limit: what demands refer to, and all that a store needs to know of it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub(super) quota: Quota,
    pub(super) prefix: KeyPrefix,
    pub(super) shadow: bool,
    pub(super) unit: QuotaUnit,
    pub(super) on_store_failure: FailurePolicy,
    pub(super) on_reservation_expiry: ReservationExpiry,
    pub(super) position: u32,
    /// The most units that one reservation may take, in millionths of the limit.
    pub(super) reservation_millionths: u32,
    /// `None` for the default.
    pub(crate) debt_max: Option<u64>,
    pub(super) lockout: Option<Lockout>,
    /// Whether a memory store keeps a share of its cap for the limit.
    pub(super) has_share: bool,
}

impl Rule {
    /// The limit's name.
    pub const fn name(&self) -> &LimitName {
        self.prefix.name()
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

    /// The most units that a counter of this quota may owe: by default ten times what it allows.
    pub fn debt_max(&self, quota: &Quota) -> u64 {
        let default = || quota.limit().saturating_mul(DEBT_LIMITS);
        self.debt_max.unwrap_or_else(default).min(AMOUNT_MAX)
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

    /// The same rule without a share of its own in a [`MemoryStore`](crate::MemoryStore) at its cap:
    /// all such rules together have one. For limits that callers define, however many they are.
    #[must_use]
    pub const fn without_share(self) -> Self {
        Self {
            has_share: false,
            ..self
        }
    }

    /// True when a memory store keeps a share of its cap for the limit.
    pub(crate) const fn has_share(&self) -> bool {
        self.has_share
    }

    /// The limit's name as bytes, which needs no UTF-8 validation.
    #[inline]
    pub(crate) fn name_bytes(&self) -> &[u8] {
        self.name().as_bytes()
    }

    #[inline]
    pub(crate) const fn prefix(&self) -> &KeyPrefix {
        &self.prefix
    }
}
