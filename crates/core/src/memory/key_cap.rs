//! The hard cap on the memory of all shards together, and how much of it each limit uses.
//!
//! At the cap, the limit that uses most makes room, see [`KeyCap::largest_limit`]. A limit that
//! uses no more than its [share](KeyCap::share) is therefore never the one that loses counters.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::limit_usage::{Evictions, LimitNumber, LimitUsage};
use crate::name::LimitName;

/// The most permits for which every store has room, whatever its cap.
const PERMITS_MIN: usize = 4_096;

/// What a counter takes of the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CapCharge {
    /// The memory in keys: 1, and more for a log or permits.
    pub(super) weight: usize,
    /// True when the counter has permits in flight, which are never evicted.
    pub(super) is_pinned: bool,
}

impl CapCharge {
    /// The charge of a counter whose state has a fixed size.
    pub(super) const KEY: Self = Self {
        weight: 1,
        is_pinned: false,
    };
}

/// The memory that the store uses and may use, in keys. The use changes only when something is
/// added or dropped, never when a known key with a state of fixed size is checked.
#[derive(Debug)]
pub(super) struct KeyCap {
    max: usize,
    /// What can be evicted. Together with the pinned memory at most `max`.
    evictable: AtomicUsize,
    /// The counters with permits in flight: at most half of `max`, or [`PERMITS_MIN`].
    pinned: AtomicUsize,
    /// The number of limits that ever had a counter, without those beyond the table's size.
    limits_seen: AtomicUsize,
    limits: Box<[LimitUsage]>,
}

impl KeyCap {
    pub(super) fn new(max: usize) -> Self {
        let limits = (0..=LimitNumber::OTHERS.get()).map(|_| LimitUsage::default());
        Self {
            max,
            evictable: AtomicUsize::new(0),
            pinned: AtomicUsize::new(0),
            limits_seen: AtomicUsize::new(0),
            limits: limits.collect(),
        }
    }

    pub(super) const fn max(&self) -> usize {
        self.max
    }

    /// The memory in use.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.evictable.load(Relaxed) + self.pinned.load(Relaxed)
    }

    /// The number of the limit with this digest. A limit without one gets the next that is free, or
    /// the common one if there is none.
    pub(super) fn limit_number(&self, digest: u128, name: LimitName) -> LimitNumber {
        let seen = || {
            self.limits_seen.fetch_add(1, Relaxed);
            (digest, name)
        };
        let mut candidates = LimitNumber::candidates(digest);
        let own = candidates.find(|number| self[*number].owner_or(seen).0 == digest);
        own.unwrap_or(LimitNumber::OTHERS)
    }

    /// The limits that have a number, each with its digest and name.
    pub(super) fn owners(&self) -> impl Iterator<Item = (LimitNumber, u128, LimitName)> {
        LimitNumber::all().filter_map(|number| {
            let (digest, name) = self[number].owner()?;
            Some((number, digest, name))
        })
    }

    /// How many counters each limit has lost to the cap; without a name for the limits that have no
    /// number of their own.
    pub(super) fn evictions(&self) -> impl Iterator<Item = (Option<LimitName>, Evictions)> {
        let limits = LimitNumber::all().map(|number| {
            let limit = &self[number];
            (limit.owner().map(|(_, name)| name), limit.evictions())
        });
        limits.filter(|(limit, evictions)| limit.is_some() || *evictions != Evictions::default())
    }

    /// The memory that every limit can count on: half the cap, divided by the number of limits. The
    /// other half is for permits, and for any limit while it is free. Those without a number of
    /// their own count as one.
    pub(super) fn share(&self) -> usize {
        let seen = self.limits_seen.load(Relaxed);
        let others = self[LimitNumber::OTHERS].evictable.load(Relaxed) > 0;
        self.max / 2 / (seen + usize::from(others)).max(1)
    }

    /// The limit that uses most of the memory that can be evicted. While the cap is exceeded, it
    /// uses more than its share, because permits take at most half of the cap.
    pub(super) fn largest_limit(&self) -> LimitNumber {
        let evictable = |number: &LimitNumber| self[*number].evictable.load(Relaxed);
        let largest = LimitNumber::all().max_by_key(evictable);
        largest.unwrap_or(LimitNumber::OTHERS)
    }

    /// By how much a limit exceeds its share.
    pub(super) fn above_share(&self, limit: LimitNumber) -> usize {
        let evictable = self[limit].evictable.load(Relaxed);
        evictable.saturating_sub(self.share())
    }

    /// Charges a counter and returns by how many keys the cap is now exceeded.
    pub(super) fn charge(&self, limit: LimitNumber, charge: CapCharge) -> usize {
        let (total, own) = self.sums(limit, charge);
        own.fetch_add(charge.weight, Relaxed);
        total.fetch_add(charge.weight, Relaxed);
        self.excess()
    }

    /// Returns the charge of a counter.
    pub(super) fn release(&self, limit: LimitNumber, charge: CapCharge) {
        let (total, own) = self.sums(limit, charge);
        own.fetch_sub(charge.weight, Relaxed);
        total.fetch_sub(charge.weight, Relaxed);
    }

    /// By how many keys the cap is exceeded. Of the pinned memory, at most half the cap counts, so
    /// that permits in a store with a small cap do not evict everything else.
    pub(super) fn excess(&self) -> usize {
        let pinned = self.pinned.load(Relaxed).min(self.max / 2);
        (self.evictable.load(Relaxed) + pinned).saturating_sub(self.max)
    }

    /// True when a limit may have `weight` more keys of permits in flight. All limits together may
    /// use a quarter of the cap; beyond that, each limit has a small reserve of its own, and all
    /// the reserves together are another quarter.
    pub(super) fn has_room_for_permits(&self, limit: LimitNumber, weight: usize) -> bool {
        let common = (self.max / 4).max(PERMITS_MIN);
        let reserve = common / self.limits.len();

        self.pinned.load(Relaxed) + weight <= common
            || self[limit].pinned.load(Relaxed) + weight <= reserve
    }

    /// The sums that a charge is part of: of all limits, and of its limit.
    fn sums(&self, limit: LimitNumber, charge: CapCharge) -> (&AtomicUsize, &AtomicUsize) {
        if charge.is_pinned {
            (&self.pinned, &self[limit].pinned)
        } else {
            (&self.evictable, &self[limit].evictable)
        }
    }
}

impl std::ops::Index<LimitNumber> for KeyCap {
    type Output = LimitUsage;

    fn index(&self, limit: LimitNumber) -> &LimitUsage {
        &self.limits[usize::from(limit.get())]
    }
}
