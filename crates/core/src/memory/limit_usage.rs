//! What a store knows about each limit: how much memory it uses and how much of it was evicted.

use std::ops::AddAssign;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::name::LimitName;

/// Identifies a limit within a store, in one byte.
///
/// A limit is a name and a shape, see [`KeyPrefix`](crate::key::KeyPrefix). The first 255 limits
/// that have counters get a number of their own; all further limits have a common one, and those
/// [without a share](crate::Rule::without_share).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LimitNumber(u8);

impl LimitNumber {
    /// The number of the limits that have none of their own.
    pub(super) const OTHERS: Self = Self(u8::MAX);

    pub(super) const fn from_byte(byte: u8) -> Self {
        Self(byte)
    }

    pub(super) const fn get(self) -> u8 {
        self.0
    }

    /// Every number.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..=Self::OTHERS.0).map(Self)
    }

    /// The numbers that a limit can own, starting at one that depends on its digest.
    pub(super) fn candidates(digest: u128) -> impl Iterator<Item = Self> {
        let [first, ..] = digest.to_le_bytes();
        let first = first % Self::OTHERS.0;
        (first..Self::OTHERS.0).chain(0..first).map(Self)
    }
}

/// How many counters of a limit were evicted because the store had reached its cap. Counters that
/// had expired are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evictions {
    /// Counters that had used up at least 95 % of their quota: a client that was being limited can
    /// start again.
    pub limited: u64,
    /// Other counters.
    pub unlimited: u64,
}

impl AddAssign for Evictions {
    fn add_assign(&mut self, other: Self) {
        self.limited += other.limited;
        self.unlimited += other.unlimited;
    }
}

/// The memory of one limit.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct LimitUsage {
    /// The digest and the name of the limit. The digest includes the shape.
    owner: OnceLock<(u128, LimitName)>,
    /// What can be evicted, in keys.
    pub(super) evictable: AtomicUsize,
    /// The counters with permits in flight, in keys.
    pub(super) pinned: AtomicUsize,
    evicted_limited: AtomicU64,
    evicted_unlimited: AtomicU64,
}

impl LimitUsage {
    /// The digest and the name of the limit, if this belongs to one.
    pub(super) fn owner(&self) -> Option<(u128, LimitName)> {
        self.owner.get().copied()
    }

    /// The owner; `owner` if there was none.
    pub(super) fn owner_or(&self, owner: impl FnOnce() -> (u128, LimitName)) -> &(u128, LimitName) {
        self.owner.get_or_init(owner)
    }

    /// Counts the eviction of a counter.
    pub(super) fn count_eviction(&self, is_limited: bool) {
        let count = if is_limited {
            &self.evicted_limited
        } else {
            &self.evicted_unlimited
        };
        count.fetch_add(1, Relaxed);
    }

    /// The evictions so far.
    pub(super) fn evictions(&self) -> Evictions {
        Evictions {
            limited: self.evicted_limited.load(Relaxed),
            unlimited: self.evicted_unlimited.load(Relaxed),
        }
    }
}
