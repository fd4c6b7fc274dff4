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
pub mod shared;
mod summary;
mod table;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ahash::RandomState;
use parking_lot::Mutex;
use tollgate::{EncodedKey, Micros};

use self::history::UsageHistory;
pub use self::summary::{KeyUsage, UsageSummary};

/// The most memory that the sketch of a limit takes, in bytes.
pub const LIMIT_BYTES_MAX: usize = 1 << 20;
/// The most memory that the sketches of all limits take together, in bytes.
pub const ALL_BYTES_MAX: usize = 128 << 20;

/// What a sketch counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UsageKind {
    /// Units that were denied, by shadow limits too.
    Denied,
    /// Units that were charged.
    Admitted,
}

/// How far back a list of keys reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageSpan {
    /// One minute.
    Minute,
    /// Five minutes.
    FiveMinutes,
    /// Sixty minutes.
    Hour,
}

impl UsageSpan {
    /// All spans, the shortest first.
    pub const ALL: [Self; 3] = [Self::Minute, Self::FiveMinutes, Self::Hour];

    /// The length in minutes.
    pub const fn minutes(self) -> u8 {
        match self {
            Self::Minute => 1,
            Self::FiveMinutes => 5,
            Self::Hour => 60,
        }
    }

    /// The span of this many minutes, if there is one.
    pub fn from_minutes(minutes: u64) -> Option<Self> {
        let mut spans = Self::ALL.into_iter();
        spans.find(|span| u64::from(span.minutes()) == minutes)
    }

    /// From when the counts of this span are, at a time. A span ends now, and begins at the edge of
    /// a period: it is at most a tenth longer than its name says.
    pub const fn start(self, now: Micros) -> Micros {
        history::start(self, now)
    }
}

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
