//! The summaries of the last hour: of short periods for the last minute, of longer ones before.

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate::{EncodedKey, Micros};

use super::span::{KEPT, PERIODS, UsageSpan};
use super::summary::UsageSummary;
use super::table::UsageTable;

/// The most summaries that a history has.
const SUMMARIES_MAX: usize = 12 + 10 + 12;
/// A clock that is set back by more than this many of the shortest periods starts a new history.
const STEP_BACK_MAX: u64 = KEPT[0];

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
    pub(super) fn record(
        &mut self,
        hash: u64,
        key: &EncodedKey,
        units: u64,
        now: Micros,
        bytes_max: usize,
    ) {
        self.advance(now, bytes_max);
        self.table.record(hash, key, units, table_bytes(bytes_max));
    }

    /// The summaries that make up a span.
    pub(super) fn parts(
        &mut self,
        span: UsageSpan,
        now: Micros,
        bytes_max: usize,
    ) -> Vec<Arc<UsageSummary>> {
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
