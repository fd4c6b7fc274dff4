//! Making a memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::budget::Budget;
use super::fingerprint::Fingerprinter;
use super::shard::Newcomers;
use super::{Inner, MemoryStore};
use crate::clock::{Clock, SystemClock, Time};
use crate::lock::Padded;
use crate::time::Micros;

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
    newcomers: Newcomers,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self {
            keys_max: KEYS_MAX_DEFAULT,
            clock: None,
            newcomers: Newcomers::Full,
        }
    }
}

impl MemoryStoreBuilder {
    /// The most counters to keep, at least 1. Hits of logs and holders of leases count too, by
    /// their size; a single key may hold more than the cap when nothing else is left to forget.
    #[must_use]
    pub fn keys_max(mut self, keys_max: usize) -> Self {
        self.keys_max = keys_max.max(1);
        self
    }

    /// Where time comes from.
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        self.shared_clock(Arc::new(clock))
    }

    /// A clock that someone else goes by too.
    #[must_use]
    pub(crate) fn shared_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(Time::Other(clock));
        self
    }

    /// Buckets of keys that the store does not know had nothing at that moment, and refill from
    /// then on.
    #[must_use]
    pub(crate) fn empty_since(mut self, moment: Micros) -> Self {
        self.newcomers = Newcomers::EmptySince(moment);
        self
    }

    /// The store.
    pub fn build(self) -> MemoryStore {
        self.build_with(Fingerprinter::random())
    }

    pub(super) fn build_with(self, prints: Fingerprinter) -> MemoryStore {
        MemoryStore {
            inner: Arc::new(self.inner(prints)),
        }
    }

    /// What is in a store.
    pub(super) fn build_inner(self) -> Inner {
        self.inner(Fingerprinter::random())
    }

    fn inner(self, prints: Fingerprinter) -> Inner {
        let shards = (self.keys_max / KEYS_PER_SHARD_MIN)
            .clamp(1, SHARDS_MAX)
            .next_power_of_two();
        Inner {
            clock: self
                .clock
                .unwrap_or_else(|| Time::System(Arc::new(SystemClock::new()))),
            prints,
            shards: (0..shards).map(|_| Padded::default()).collect(),
            budget: Budget::new(self.keys_max),
            sweep_at: AtomicU64::new(0),
            sweep_next: AtomicUsize::new(0),
            newcomers: self.newcomers,
        }
    }
}
