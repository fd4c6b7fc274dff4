//! Builds a memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::fingerprint::Fingerprinter;
use super::key_cap::KeyCap;
use super::shard::InitialState;
use super::{Inner, MemoryStore};
use crate::clock::{Clock, ClockSource, SystemClock};
use crate::lock::PaddedMutex;
use crate::time::Micros;

/// The default cap: a million keys, which take at most 58 MB.
pub const KEYS_MAX_DEFAULT: usize = 1_000_000;
/// The number of keys for which one more shard is worthwhile.
const KEYS_PER_SHARD_MIN: usize = 1_024;
/// The most shards of a store.
const SHARDS_MAX: usize = 256;

/// Configures a [`MemoryStore`], see [`MemoryStore::builder`].
#[derive(Debug)]
pub struct MemoryStoreBuilder {
    keys_max: usize,
    clock: Option<ClockSource>,
    initial_state: InitialState,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self {
            keys_max: KEYS_MAX_DEFAULT,
            clock: None,
            initial_state: InitialState::Full,
        }
    }
}

impl MemoryStoreBuilder {
    /// Sets the most counters to keep, at least 1. The hits of logs and the permits of concurrency
    /// limits count too, by their size. A single key may use more than the cap when no other key is
    /// left to evict.
    #[must_use]
    pub fn keys_max(mut self, keys_max: usize) -> Self {
        self.keys_max = keys_max.max(1);
        self
    }

    /// Sets the clock of the store. Defaults to the [`SystemClock`].
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

    /// Makes the buckets of unknown keys start empty at `moment` and refill from then on.
    #[must_use]
    pub(crate) fn empty_since(mut self, moment: Micros) -> Self {
        self.initial_state = InitialState::EmptySince(moment);
        self
    }

    /// Builds the store.
    pub fn build(self) -> MemoryStore {
        self.build_with(Fingerprinter::with_random_seeds())
    }

    pub(super) fn build_with(self, fingerprinter: Fingerprinter) -> MemoryStore {
        MemoryStore {
            inner: Arc::new(self.inner(fingerprinter)),
        }
    }

    /// Builds the contents of a store, for an owner that does not share them.
    pub(super) fn build_inner(self) -> Inner {
        self.inner(Fingerprinter::with_random_seeds())
    }

    fn inner(self, fingerprinter: Fingerprinter) -> Inner {
        let clock = self
            .clock
            .unwrap_or_else(|| ClockSource::System(Arc::new(SystemClock::new())));
        let shards = (self.keys_max / KEYS_PER_SHARD_MIN)
            .clamp(1, SHARDS_MAX)
            .next_power_of_two();

        Inner {
            clock,
            fingerprinter,
            shards: (0..shards).map(|_| PaddedMutex::default()).collect(),
            key_cap: KeyCap::new(self.keys_max),
            sweep_at: AtomicU64::new(0),
            shards_swept: AtomicUsize::new(0),
            initial_state: self.initial_state,
        }
    }
}
