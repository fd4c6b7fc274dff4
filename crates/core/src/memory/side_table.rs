//! The states that do not fit into a slot because they grow with use: the hits of logs and the
//! permits of concurrency limits.

use slab::Slab;

use super::key_cap::{CapCharge, KeyCap};
use super::limit_usage::LimitNumber;
use super::slot::QuotaUsage;
use crate::algorithm::{HitLog, Permits, Quota};
use crate::time::Micros;

/// The states of a shard that do not fit into a slot, by the index that their slot holds.
pub(super) type SideTable = Slab<SideEntry>;

/// A state of variable size.
#[derive(Debug)]
pub(super) struct SideEntry {
    pub(super) state: SideState,
    /// The limit of the counter.
    limit: LimitNumber,
    /// What the counter has charged to the store's cap, including its slot.
    charge: CapCharge,
}

/// A state that does not fit into a slot.
#[derive(Debug)]
pub(super) enum SideState {
    Log(HitLog),
    Permits(Permits),
}

impl SideState {
    /// The state of a counter of this quota that was never used.
    pub(super) fn new(quota: &Quota) -> Self {
        match quota {
            Quota::Concurrency(_) => Self::Permits(Permits::default()),
            _ => Self::Log(HitLog::default()),
        }
    }

    /// What a counter with this state takes of the cap. A key takes about 60 bytes, a hit 16 and a
    /// permit 48 to 100.
    fn charge(&self) -> CapCharge {
        let (weight, is_pinned) = match self {
            Self::Log(log) => (log.hits().len().div_ceil(4), false),
            Self::Permits(permits) => (permits.weight(), permits.sum() > 0),
        };
        CapCharge {
            weight: CapCharge::SLOT.weight + weight,
            is_pinned,
        }
    }

    /// When the state is empty, and how much of the quota is used until then.
    pub(super) fn usage(&self, quota: &Quota) -> (Micros, QuotaUsage) {
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
            _ => (Micros::ZERO, QuotaUsage(0)),
        }
    }
}

impl SideEntry {
    /// The entry of a counter whose slot has been charged to the cap.
    pub(super) fn new(state: SideState, limit: LimitNumber) -> Self {
        Self {
            state,
            limit,
            charge: CapCharge::SLOT,
        }
    }

    /// What the counter has charged to the store's cap, including its slot.
    pub(super) const fn charge(&self) -> CapCharge {
        self.charge
    }

    /// Updates the charge to the present size. Returns by how many keys the store now exceeds its
    /// cap, if the counter has grown.
    pub(super) fn update_charge(&mut self, key_cap: &KeyCap) -> usize {
        let charge = self.state.charge();
        if charge == self.charge {
            return 0;
        }

        let before = std::mem::replace(&mut self.charge, charge);
        key_cap.charge(self.limit, charge);
        key_cap.release(self.limit, before);
        if charge.weight > before.weight {
            key_cap.excess()
        } else {
            0
        }
    }
}
