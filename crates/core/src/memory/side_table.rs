//! The states that do not fit into a slot because they grow with use: the hits of logs and the
//! permits of concurrency limits.

use slab::Slab;

use super::key_cap::KeyCap;
use super::slot::QuotaUsage;
use crate::algorithm::{HitLog, Permits, Quota};
use crate::time::Micros;

/// The states of a shard that do not fit into a slot, by the index that their slot holds.
pub(super) type SideTable = Slab<SideEntry>;

/// A state of variable size.
#[derive(Debug)]
pub(super) struct SideEntry {
    pub(super) state: SideState,
    /// What the entry has charged to the store's cap, in keys.
    pub(super) charged: usize,
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

    /// When the state is empty, and how much of the quota is used until then.
    pub(super) fn usage(&self, quota: &Quota) -> (Micros, QuotaUsage) {
        match (self, quota) {
            (Self::Log(log), Quota::SlidingLog(quota)) => {
                let usage = QuotaUsage::from_ratio(log.sum(), quota.limit);
                (quota.empty_at(log), usage)
            }
            // Permits in flight are evicted last, however few there are: unlike a budget, they do
            // not recover by themselves.
            (Self::Permits(permits), _) if permits.sum() > 0 => {
                (permits.empty_at(), QuotaUsage::ALL)
            }
            _ => (Micros::ZERO, QuotaUsage(0)),
        }
    }
}

impl SideEntry {
    /// Updates the charge to the present size. Returns by how many keys the store now exceeds its
    /// cap.
    pub(super) fn update_charge(&mut self, key_cap: &KeyCap) -> usize {
        // A key takes about 60 bytes, a hit 16 and a permit 48 to 100.
        let weight = match &self.state {
            SideState::Log(log) => log.hits().len().div_ceil(4),
            SideState::Permits(permits) => permits.weight(),
        };

        let charged = std::mem::replace(&mut self.charged, weight);
        if weight > charged {
            return key_cap.charge(weight - charged);
        }
        key_cap.release(charged - weight);
        0
    }
}
