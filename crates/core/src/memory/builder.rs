//! Builds a memory store.

use std::sync::Arc;

use super::counters::Counters;
use super::store::MemoryStore;
use crate::clock::{Clock, ClockSource};
use crate::key::Fingerprinter;

/// The default cap: a million keys, which take at most 96 MB.
pub const KEYS_MAX_DEFAULT: usize = 1_000_000;

/// Configures a [`MemoryStore`], see [`MemoryStore::builder`].
#[derive(Debug)]
pub struct MemoryStoreBuilder {
    keys_max: usize,
    clock: Option<ClockSource>,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self {
            keys_max: KEYS_MAX_DEFAULT,
            clock: None,
        }
    }
}

impl MemoryStoreBuilder {
    /// Sets the most counters to keep, at least 1. The hits of logs and the permits of concurrency
    /// limits count too, by their size. A single key may use more than the cap when no other key is
    /// left to evict.
    ///
    /// Every limit keeps its share through any flood of keys on other limits: half of the cap,
    /// divided by the number of limits. Permits in flight are never evicted; a permit is denied
    /// when permits use a quarter of the cap (or 4,096 keys, if that is more).
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

    /// Builds the store.
    pub fn build(self) -> MemoryStore {
        self.build_with(Fingerprinter::with_random_seeds())
    }

    pub(super) fn build_with(self, fingerprinter: Fingerprinter) -> MemoryStore {
        let clock = self.clock.unwrap_or_default();
        MemoryStore::from_counters(Counters::new(self.keys_max, fingerprinter, clock))
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
