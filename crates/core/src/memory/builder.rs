//! Making a memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::budget::Budget;
use super::fingerprint::Fingerprinter;
use super::{Inner, MemoryStore, Padded};
use crate::clock::{Clock, SystemClock, Time};

/// The cap when none is given: a million keys, at most 58 MB.
pub const KEYS_MAX_DEFAULT: usize = 1_000_000;
/// A shard is worth having for this many keys.
const KEYS_PER_SHARD_MIN: usize = 1_024;
const SHARDS_MAX: usize = 256;

/// See [`MemoryStore::builder`].
#[derive(Debug)]
pub struct MemoryStoreBuilder {
    keys_max: usize,
    clock: Option<Time>,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self { keys_max: KEYS_MAX_DEFAULT, clock: None }
    }
}

impl MemoryStoreBuilder {
    /// The most counters to keep, at least 1. Hits of logs and holders of leases count too, by their size; a single key
    /// may hold more than the cap when nothing else is left to forget.
    #[must_use]
    pub fn keys_max(mut self, keys_max: usize) -> Self {
        self.keys_max = keys_max.max(1);
        self
    }

    /// Where time comes from.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Time::Other(Arc::new(clock)));
        self
    }

    /// The store.
    pub fn build(self) -> MemoryStore {
        self.build_with(Fingerprinter::random())
    }

    pub(super) fn build_with(self, prints: Fingerprinter) -> MemoryStore {
        let shards = (self.keys_max / KEYS_PER_SHARD_MIN).clamp(1, SHARDS_MAX).next_power_of_two();
        let inner = Inner {
            clock: self.clock.unwrap_or_else(|| Time::System(Arc::new(SystemClock::new()))),
            prints,
            shards: (0..shards).map(|_| Padded::default()).collect(),
            budget: Budget::new(self.keys_max),
            sweep_at: AtomicU64::new(0),
            sweep_next: AtomicUsize::new(0),
        };
        MemoryStore { inner: Arc::new(inner) }
    }
}
