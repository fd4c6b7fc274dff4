//! The keys that use a limit most: those of the current period in a table, and summaries of the last
//! hour, of short periods for the last minute and of longer ones before.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ahash::RandomState;
use parking_lot::Mutex;
use tollgate::{EncodedKey, Micros};

use super::span::{KEPT, PERIODS, UsageKind, UsageSpan};
use super::summary::UsageSummary;
use super::table::UsageTable;

/// The most memory that the sketch of a limit takes, in bytes.
pub(crate) const LIMIT_BYTES_MAX: usize = 1 << 20;
/// The most memory that the sketches of all limits take together, in bytes.
pub(crate) const ALL_BYTES_MAX: usize = 128 << 20;
/// The most summaries that a history has.
const SUMMARIES_MAX: usize = 12 + 10 + 12;
/// A clock that is set back by more than this many of the shortest periods starts a new history.
const STEP_BACK_MAX: u64 = KEPT[0];

/// The keys that use one limit most.
#[derive(Debug)]
pub struct KeySketch {
    hashes: RandomState,
    /// The most memory that this sketch takes, in bytes.
    bytes_max: AtomicUsize,
    pub(super) denied: Mutex<UsageHistory>,
    pub(super) admitted: Mutex<UsageHistory>,
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

/// The usage of the last hour.
#[derive(Debug, Default)]
pub(super) struct UsageHistory {
    /// The keys of the current period.
    table: UsageTable,
    /// The number of the current period, counted from the UNIX epoch.
    current: u64,
    /// For each length, the complete periods that have any usage, the oldest first.
    complete: [VecDeque<(u64, Arc<UsageSummary>)>; PERIODS.len()],
}

/// How much of the memory of a sketch each of its tables may take: two ninths, as there are two.
const fn table_bytes(bytes_max: usize) -> usize {
    bytes_max / 9 * 2
}

/// How much of the memory of a sketch each summary may take. Five ninths are for those of two
/// histories.
const fn summary_bytes(bytes_max: usize) -> usize {
    bytes_max / 9 * 5 / (2 * SUMMARIES_MAX)
}

impl UsageHistory {
    /// Counts a request.
    #[inline]
    fn record(&mut self, hash: u64, key: &EncodedKey, units: u64, now: Micros, bytes_max: usize) {
        self.advance(now, bytes_max);
        self.table.record(hash, key, units, table_bytes(bytes_max));
    }

    /// The summaries that make up a span.
    fn parts(&mut self, span: UsageSpan, now: Micros, bytes_max: usize) -> Vec<Arc<UsageSummary>> {
        self.advance(now, bytes_max);

        let longest = span as usize;
        let mut parts = vec![Arc::new(self.table.summary(summary_bytes(bytes_max)))];
        for (level, complete) in self.complete.iter().enumerate().take(longest + 1) {
            // Of shorter periods, only those that no longer one contains yet.
            let first = if level == longest {
                self.number(level).saturating_sub(KEPT[level])
            } else {
                self.number(level + 1) * ratio(level)
            };
            let recent = complete.iter().filter(|(number, _)| *number >= first);
            parts.extend(recent.map(|(_, summary)| summary.clone()));
        }
        parts
    }

    /// Completes the current period, if it is over.
    #[inline]
    fn advance(&mut self, now: Micros, bytes_max: usize) {
        let current = now.get() / PERIODS[0];
        if current != self.current {
            self.advance_to(current, bytes_max);
        }
    }

    #[cold]
    fn advance_to(&mut self, current: u64, bytes_max: usize) {
        if current < self.current {
            // Timestamps may arrive a little out of order: they count for the current period.
            if self.current - current > STEP_BACK_MAX {
                *self = Self {
                    current,
                    ..Self::default()
                };
            }
            return;
        }

        let bytes = summary_bytes(bytes_max);
        let mut completed = self.current;
        if !self.table.is_empty() {
            let summary = Arc::new(self.table.summary(bytes));
            self.complete[0].push_back((completed, summary));
            self.table.clear();
        }
        self.current = current;

        // Periods whose last part is over become one summary.
        for level in 1..PERIODS.len() {
            completed /= ratio(level - 1);
            if completed == self.number(level) {
                break;
            }
            let parts = self.complete[level - 1].iter();
            let parts = parts.filter(|(number, _)| number / ratio(level - 1) == completed);
            let mut merged = UsageSummary::merge(parts.map(|(_, summary)| &**summary));
            merged.truncate(bytes);
            if merged.total > 0 {
                self.complete[level].push_back((completed, Arc::new(merged)));
            }
        }
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        for (level, kept) in KEPT.into_iter().enumerate() {
            let first = self.number(level).saturating_sub(kept);
            let complete = &mut self.complete[level];
            while complete.front().is_some_and(|(number, _)| *number < first) {
                complete.pop_front();
            }
        }
    }

    /// The memory that the history takes, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let summaries = self.complete.iter().flatten();
        let summaries = summaries.map(|(_, summary)| summary.bytes() + size_of::<UsageSummary>());
        self.table.bytes() + summaries.sum::<usize>()
    }

    /// The number of the current period of a length.
    const fn number(&self, level: usize) -> u64 {
        self.current / (PERIODS[level] / PERIODS[0])
    }
}

/// How many periods of a length make up one of the next.
const fn ratio(level: usize) -> u64 {
    PERIODS[level + 1] / PERIODS[level]
}
