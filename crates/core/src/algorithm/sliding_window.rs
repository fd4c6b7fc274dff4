//! Sliding window counter: the count of the current window plus the count of the previous one,
//! weighted by how much of the previous one the sliding window still covers. It keeps two counts
//! per key and is the default for plain API limits.
//!
//! The weighting assumes that the hits of the previous window were spread evenly. On real traffic
//! it misjudges about one request in 30,000. Traffic made to fool it can get just under twice the
//! limit allowed in one window's length.

use std::time::Duration;

use super::division::ProductInt;
use super::key_lock::KeyLock;
use super::outcome::{CLOCK_SLACK, FixedStateAlgorithm, Outcome, Verdict, charged_count};
use crate::limit_error::{AMOUNT_MAX, LimitError, validate_amount, validate_window};
use crate::time::Micros;

/// The parameters of a sliding window counter. Windows begin at whole multiples of their length
/// since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    pub(crate) limit: u64,
    pub(crate) length: Micros,
}

/// The current and the previous window of a sliding window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlidingCounts {
    /// Units spent in the current window.
    pub current: u64,
    /// Units spent in the previous window.
    pub previous: u64,
    /// When the current window began.
    pub start: Micros,
}

impl SlidingWindow {
    /// `limit` units per sliding window of `length`.
    pub fn new(limit: u64, length: Duration) -> Result<Self, LimitError> {
        Ok(Self {
            limit: validate_amount("limit", limit)?,
            length: validate_window(length)?,
        })
    }

    /// The most units allowed in one window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of the window.
    pub const fn window(&self) -> Micros {
        self.length
    }

    /// The counts as of the window that contains `now`.
    ///
    /// A moment slightly before the stored window still belongs to it. A moment well before it
    /// means that the clock was set back: both counts then go into the current window, so that
    /// setting the clock back never refills.
    #[inline(always)]
    fn roll(&self, counts: SlidingCounts, now: Micros) -> SlidingCounts {
        let start = Micros::new(now.get() - now.get() % self.length.get());

        let (current, previous) = if start == counts.start
            || (start < counts.start && counts.start.since(now) <= CLOCK_SLACK)
        {
            return counts;
        } else if start < counts.start {
            let sum = counts.current.saturating_add(counts.previous);
            (sum.min(AMOUNT_MAX), 0)
        } else if start.since(counts.start) == self.length {
            (0, counts.current)
        } else {
            (0, 0)
        };

        SlidingCounts {
            current,
            previous,
            start,
        }
    }

    /// Microseconds until the current window ends.
    fn left_of_window(&self, counts: SlidingCounts, now: Micros) -> u64 {
        counts.start.after(self.length).since(now).get()
    }

    /// How many microseconds of the previous window the sliding window still covers. Divided by the
    /// length, this is the weight of the previous count.
    fn covered(&self, counts: SlidingCounts, now: Micros) -> u64 {
        self.left_of_window(counts, now).min(self.length.get())
    }

    /// How long until `cost` fits: in this window if the current count leaves room, otherwise in
    /// the next one, where the current count has become the previous one.
    fn retry_after(&self, counts: SlidingCounts, cost: u64, now: Micros) -> Micros {
        let left = self.left_of_window(counts, now);
        if counts.current.saturating_add(cost) <= self.limit {
            let covered = self.covered_max(self.limit - counts.current - cost, counts.previous);
            Micros::new(left.saturating_sub(covered))
        } else {
            let covered = self.covered_max(self.limit - cost, counts.current);
            Micros::new(left.saturating_add(self.length.get() - covered))
        }
    }

    /// The most microseconds of a window that may still be covered so that its weighted `count` is
    /// at most `room`.
    fn covered_max(&self, room: u64, count: u64) -> u64 {
        if room >= count {
            self.length.get()
        } else {
            u128::product(room, self.length.get()).divide(count).0
        }
    }

    /// The previous count, weighted by how much of its window is still covered, times the length.
    fn weighted_previous(&self, counts: SlidingCounts, now: Micros) -> u128 {
        u128::product(counts.previous, self.covered(counts, now))
    }

    /// The weighted count of both windows, rounded up.
    pub(super) fn used(&self, counts: SlidingCounts, now: Micros) -> u64 {
        let previous = self.weighted_previous(counts, now);
        counts
            .current
            .saturating_add(previous.divide_ceil(self.length.get()))
    }

    /// How long until the weighted count, which is `used` when rounded up, falls by a unit. `rest`
    /// is the part of a unit by which the weighted previous count exceeds a whole number, times the
    /// length.
    #[inline(always)]
    fn more_after(&self, counts: SlidingCounts, used: u64, rest: u64, now: Micros) -> Micros {
        if used > self.limit {
            return self.retry_after(counts, 1, now);
        }

        // One microsecond works off as many parts of a unit as units were spent in the window that
        // is leaving. That is the current window once it has ended, if the previous one is empty.
        let left = self.left_of_window(counts, now);
        let length = self.length.get();
        let (parts, per_micro, from) = if counts.previous > 0 {
            let parts = if rest > 0 { rest } else { length };
            (parts, counts.previous, left.saturating_sub(length))
        } else {
            (length, counts.current.max(1), left)
        };
        Micros::new(from.saturating_add(parts.div_ceil(per_micro)))
    }
}

impl FixedStateAlgorithm for SlidingWindow {
    type State = SlidingCounts;

    #[inline(always)]
    fn apply(&self, counts: SlidingCounts, cost: u64, now: Micros) -> (SlidingCounts, Verdict) {
        let counts = self.roll(counts, now);
        if cost > self.limit {
            return (counts, Verdict::Never);
        }

        // All of these are at most 2^53, so the sums fit.
        let room = self.limit.saturating_sub(counts.current);
        let fits = cost <= room
            && self.weighted_previous(counts, now) <= u128::product(room - cost, self.length.get());

        if fits || cost == 0 {
            let current = counts.current + cost;
            (SlidingCounts { current, ..counts }, Verdict::ALLOW)
        } else {
            let retry_after = self.retry_after(counts, cost, now);
            (counts, Verdict::Deny { retry_after })
        }
    }

    #[inline(always)]
    fn outcome(&self, counts: SlidingCounts, verdict: Verdict, now: Micros) -> Outcome {
        let left = self.left_of_window(counts, now);
        let (whole, rest) = self
            .weighted_previous(counts, now)
            .divide(self.length.get());
        let used = counts
            .current
            .saturating_add(whole)
            .saturating_add(u64::from(rest > 0));
        let reset_after = if counts.current > 0 {
            left.saturating_add(self.length.get())
        } else if counts.previous > 0 {
            left
        } else {
            0
        };

        Outcome {
            verdict,
            limit: self.limit,
            remaining: self.limit.saturating_sub(used),
            reset_after: Micros::new(reset_after),
            more_after: if verdict.is_allowed() && reset_after > 0 {
                self.more_after(counts, used, rest, now)
            } else {
                Micros::ZERO
            },
            lock: KeyLock::NONE,
        }
    }

    fn charge(
        &self,
        counts: SlidingCounts,
        cost: u64,
        debt_max: u64,
        now: Micros,
    ) -> SlidingCounts {
        let counts = self.roll(counts, now);
        let current = charged_count(counts.current, cost, self.limit, debt_max);
        SlidingCounts { current, ..counts }
    }

    /// Subtracts `cost` from the current window first, then from the previous one; at most what one
    /// demand can have spent.
    fn refund(&self, counts: SlidingCounts, cost: u64, now: Micros) -> SlidingCounts {
        let cost = cost.min(AMOUNT_MAX);
        let counts = self.roll(counts, now);
        let rest = cost.saturating_sub(counts.current);

        SlidingCounts {
            current: counts.current.saturating_sub(cost),
            previous: counts.previous.saturating_sub(rest),
            ..counts
        }
    }

    /// The start of the current window.
    fn charged_in(counts: SlidingCounts) -> Micros {
        counts.start
    }

    fn give_back(
        &self,
        counts: SlidingCounts,
        units: u64,
        charged_in: Micros,
        now: Micros,
    ) -> SlidingCounts {
        let mut counts = self.roll(counts, now);
        if charged_in == counts.start {
            counts.current = counts.current.saturating_sub(units);
        } else if charged_in.after(self.length) == counts.start {
            counts.previous = counts.previous.saturating_sub(units);
        }
        counts
    }
}
