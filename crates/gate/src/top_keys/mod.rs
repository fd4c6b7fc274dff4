//! Which keys use a limit most: always on in the service, bounded, and cheap enough for every
//! decision.
//!
//! Requests can have any number of distinct keys, so they are summarised. A *table* counts the keys
//! of the last seconds (`table`). When its five seconds are over, its heaviest rows become a
//! *summary* (`summary`), and summaries of short periods become summaries of longer ones
//! (`history`), until an hour has passed. Every count comes with a bound on how much it may be too
//! high; a key that is heavy enough is never missed. Whether a key may be displayed is decided by
//! the caller.

mod history;
mod row;
pub mod shared;
mod span;
mod summary;
mod table;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ahash::RandomState;
use parking_lot::Mutex;
use tollgate::{EncodedKey, Micros};

use self::history::UsageHistory;
pub use self::row::KeyUsage;
pub use self::span::{UsageKind, UsageSpan};
pub use self::summary::UsageSummary;

/// The most memory that the sketch of a limit takes, in bytes.
pub const LIMIT_BYTES_MAX: usize = 1 << 20;
/// The most memory that the sketches of all limits take together, in bytes.
pub const ALL_BYTES_MAX: usize = 128 << 20;

/// The keys that use one limit most.
#[derive(Debug)]
pub struct KeySketch {
    hashes: RandomState,
    /// The most memory that this sketch takes, in bytes.
    bytes_max: AtomicUsize,
    denied: Mutex<UsageHistory>,
    admitted: Mutex<UsageHistory>,
}

impl Default for KeySketch {
    fn default() -> Self {
        Self {
            hashes: RandomState::new(),
            bytes_max: AtomicUsize::new(LIMIT_BYTES_MAX),
            denied: Mutex::default(),
            admitted: Mutex::default(),
        }
    }
}

impl KeySketch {
    /// Counts a request of a key. A request that costs nothing is not counted.
    #[inline]
    pub fn record(&self, kind: UsageKind, key: &EncodedKey, units: u64, now: Micros) {
        if units == 0 {
            return;
        }

        let hash = self.hashes.hash_one(key.as_bytes());
        let bytes_max = self.bytes_max.load(Relaxed);
        let mut history = self.history(kind).lock();
        history.record(hash, key, units, now, bytes_max);
    }

    /// The heaviest keys of a span, in descending order.
    pub fn top(&self, kind: UsageKind, span: UsageSpan, now: Micros) -> UsageSummary {
        let bytes_max = self.bytes_max.load(Relaxed);
        // Merging takes longer than a decision may wait, so it happens without the lock.
        let parts = self.history(kind).lock().parts(span, now, bytes_max);
        let mut merged = UsageSummary::merge(parts.iter().map(AsRef::as_ref));
        merged.sort();
        merged
    }

    /// Forgets all keys, as after a change of what they mean.
    pub fn clear(&self) {
        for history in [&self.denied, &self.admitted] {
            *history.lock() = UsageHistory::default();
        }
    }

    /// Sets the most memory that the sketch takes, in bytes.
    pub(crate) fn set_bytes_max(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Relaxed);
    }

    const fn history(&self, kind: UsageKind) -> &Mutex<UsageHistory> {
        match kind {
            UsageKind::Denied => &self.denied,
            UsageKind::Admitted => &self.admitted,
        }
    }
}

#[cfg(test)]
mod tests;
