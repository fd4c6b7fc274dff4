//! Builds a memory store.

use std::sync::Arc;

use super::counters::Counters;
use super::hot_key::SplitPolicy;
use super::store::MemoryStore;
use crate::clock::{Clock, ClockSource};
use crate::key::Fingerprinter;

/// The default cap: a million keys, which take at most 58 MB.
pub const KEYS_MAX_DEFAULT: usize = 1_000_000;

/// Configures a [`MemoryStore`], see [`MemoryStore::builder`].
#[derive(Debug)]
pub struct MemoryStoreBuilder {
    keys_max: usize,
    clock: Option<ClockSource>,
    split_policy: SplitPolicy,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self {
            keys_max: KEYS_MAX_DEFAULT,
            clock: None,
            split_policy: SplitPolicy::default(),
        }
    }
}

impl MemoryStoreBuilder {
    /// Sets the most counters to keep, at least 1. The hits of logs and the permits of concurrency
    /// limits count too, by their size. A single key may use more than the cap when no other key is
    /// left to evict.
    ///
    /// Every limit keeps its share through any flood of keys on other limits: half of the cap,
    /// divided by the number of limits. Permits in flight are never evicted; a permit is denied when
    /// permits use a quarter of the cap (or 4,096 keys, if that is more).
    #[must_use]
    pub fn keys_max(mut self, keys_max: usize) -> Self {
        self.keys_max = keys_max.max(1);
        self
    }

    /// Sets the clock of the store. Defaults to the [`SystemClock`](crate::SystemClock).
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        self.shared_clock(Arc::new(clock))
    }

    /// Sets a clock that others use too.
    #[must_use]
    pub(crate) fn shared_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(ClockSource::Custom(clock));
        self
    }

    /// Treats every key as hot, for tests of the store: budgets are split between threads without
    /// contention, however little is left. Then `remaining` may be far too low.
    #[must_use]
    pub fn split_every_key(mut self) -> Self {
        self.split_policy = SplitPolicy::EAGER;
        self
    }

    /// Builds the store.
    pub fn build(self) -> MemoryStore {
        self.build_with(Fingerprinter::with_random_seeds())
    }

    pub(super) fn build_with(self, fingerprinter: Fingerprinter) -> MemoryStore {
        let counters = Counters::new(self.keys_max, self.split_policy, fingerprinter);
        MemoryStore::from_counters(counters, self.clock.unwrap_or_default())
    }
}

impl MemoryStore {
    /// A store with the default cap and the system clock.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Configures the cap and the clock.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}
