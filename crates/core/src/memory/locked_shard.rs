//! A shard, its lock, and its hot key.

use super::hot_key::{HotKey, SplitPolicy};
use super::shard::CounterShard;
use crate::key::Fingerprint;
use crate::lock::{PaddedGuard, PaddedMutex};

/// A shard behind its lock. Every way to its counters but [`lock_hot`](Self::lock_hot) cools its hot
/// key, so that the counters are complete.
#[derive(Debug)]
pub(super) struct LockedShard {
    counters: PaddedMutex<CounterShard>,
    pub(super) hot_key: HotKey,
}

/// A locked shard.
pub(super) type ShardGuard<'a> = PaddedGuard<'a, CounterShard>;

impl LockedShard {
    pub(super) fn new(policy: &SplitPolicy) -> Self {
        Self {
            counters: PaddedMutex::default(),
            hot_key: HotKey::new(policy),
        }
    }

    /// Locks the shard.
    pub(super) fn lock(&self) -> ShardGuard<'_> {
        self.cooled(self.counters.lock())
    }

    /// Locks the shard without waiting; `None` while another thread holds the lock.
    pub(super) fn try_lock(&self) -> Option<ShardGuard<'_>> {
        let guard = self.counters.try_lock()?;
        Some(self.cooled(guard))
    }

    /// Locks the shard and leaves its hot key as it is: the counter of the hot key may be without
    /// what was spent from its stripes. Returns whether another thread held the lock.
    #[inline(always)]
    pub(super) fn lock_hot(&self) -> (ShardGuard<'_>, bool) {
        self.counters.lock_observed()
    }

    /// Reads the memory where the search for a counter begins, without locking.
    #[inline]
    pub(super) fn touch(&mut self, fingerprint: Fingerprint) -> u64 {
        self.counters.get_mut().touch(fingerprint)
    }

    #[inline]
    fn cooled<'a>(&self, mut guard: ShardGuard<'a>) -> ShardGuard<'a> {
        if self.hot_key.is_hot() {
            self.hot_key.cool(&mut guard);
        }
        guard
    }
}
