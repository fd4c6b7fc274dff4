//! The states that do not fit into a slot: the hits of logs, the permits of concurrency limits, and
//! lockouts.

use super::context::DemandContext;
use super::key_cap::{CapCharge, KeyCap};
use super::limit_usage::LimitNumber;
use super::slot::{QuotaUsage, SlotState};
use crate::algorithm::{HitLog, LockoutState, PermitEntry, Permits, Quota};
use crate::time::Micros;

/// A state that does not fit into a slot.
#[derive(Debug)]
pub(super) enum LargeState {
    Log(HitLog),
    Permits(Box<Permits>),
    /// The lockout of a key, which has an entry of its own.
    Lockout(LockoutState),
}

/// A counter with such a state.
#[derive(Debug)]
pub(super) struct LargeEntry {
    pub(super) state: LargeState,
    pub(super) limit: LimitNumber,
    /// The moment from which on dropping the counter changes no decision.
    pub(super) until: Micros,
    usage: QuotaUsage,
    /// Its charge to the store's cap.
    pub(super) cap_charge: CapCharge,
}

impl LargeState {
    /// The state of a counter of this quota that was never used.
    pub(super) fn new(quota: &Quota) -> Self {
        match quota {
            Quota::Concurrency(_) => Self::Permits(Box::default()),
            _ => Self::Log(HitLog::default()),
        }
    }

    /// Its charge to the cap. A key takes about 60 bytes, a hit 16 and a permit 48 to 100.
    fn cap_charge(&self) -> CapCharge {
        let (weight, is_pinned) = match self {
            Self::Log(log) => (log.hits().len().div_ceil(4), false),
            Self::Permits(permits) => (permits.weight(), permits.sum() > 0),
            Self::Lockout(_) => (0, false),
        };
        CapCharge {
            weight: CapCharge::KEY.weight + weight,
            is_pinned,
        }
    }

    /// When the state is empty, and how much of the quota is used until then.
    fn usage(&self, quota: &Quota) -> (Micros, QuotaUsage) {
        match (self, quota) {
            (Self::Log(log), Quota::SlidingLog(quota)) => {
                let usage = QuotaUsage::from_ratio(log.sum(), quota.limit);
                (quota.empty_at(log), usage)
            }
            // Permits in flight are never evicted, however few there are: unlike a budget, they do
            // not recover by themselves.
            (Self::Permits(permits), _) if permits.sum() > 0 => {
                (permits.empty_at(), QuotaUsage::PINNED)
            }
            (Self::Lockout(lockout), _) => (lockout.until, QuotaUsage::EXHAUSTED),
            _ => (Micros::ZERO, QuotaUsage::NONE),
        }
    }
}

impl LargeEntry {
    /// An entry whose key has been charged to the cap.
    pub(super) const fn new(state: LargeState, limit: LimitNumber) -> Self {
        Self {
            state,
            limit,
            until: Micros::ZERO,
            usage: QuotaUsage::NONE,
            cap_charge: CapCharge::KEY,
        }
    }

    /// The same entry with the usage that it had when it was saved.
    pub(super) fn with_usage(self, saved: &SlotState) -> Self {
        Self {
            until: saved.until,
            usage: saved.saved_usage(),
            ..self
        }
    }

    /// How much of the quota is used at `now`. A key that is locked out is evicted after all
    /// others, and one whose denials are being counted like an exhausted key.
    pub(super) fn usage(&self, now: Micros) -> QuotaUsage {
        match &self.state {
            LargeState::Lockout(lockout) if lockout.locked_for(now).is_some() => QuotaUsage::LOCKED,
            _ if self.until < now => QuotaUsage::NONE,
            _ => self.usage,
        }
    }

    /// The usage as of the last change.
    pub(super) const fn stored_usage(&self) -> QuotaUsage {
        self.usage
    }

    /// Adds a hit or a permit.
    pub(super) fn charge(&mut self, context: &DemandContext<'_>) {
        let &DemandContext {
            quota, cost, now, ..
        } = context;
        match (&mut self.state, quota) {
            (LargeState::Permits(permits), Quota::Concurrency(quota)) => {
                let timeout = quota.permit_timeout;
                permits.insert(PermitEntry::new(context.permit_id, cost, timeout, now));
            }
            (LargeState::Log(log), _) => {
                let debt_max = context.limit.debt_max(quota);
                log.charge(cost, quota.limit(), debt_max, now);
            }
            _ => {}
        }
    }

    /// Updates the usage and the charge to a changed state. Returns by how many keys the store now
    /// exceeds its cap, if the counter has grown.
    pub(super) fn update(&mut self, quota: &Quota, key_cap: &KeyCap) -> usize {
        (self.until, self.usage) = self.state.usage(quota);
        self.update_charge(key_cap)
    }

    /// Updates the charge to the present size, like [`update`](Self::update).
    pub(super) fn update_charge(&mut self, key_cap: &KeyCap) -> usize {
        let charge = self.state.cap_charge();
        if charge == self.cap_charge {
            return 0;
        }

        let before = std::mem::replace(&mut self.cap_charge, charge);
        key_cap.charge(self.limit, charge);
        key_cap.release(self.limit, before);
        if charge.weight > before.weight {
            key_cap.excess()
        } else {
            0
        }
    }
}
