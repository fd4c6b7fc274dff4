//! Sliding window counter: this window's count plus the previous one's, weighted by how much of it
//! the sliding window still covers. Two numbers per key, and the default for plain API limits.
//!
//! It assumes that the previous window's hits were spread evenly. On real traffic it is wrong about
//! one request in 30,000; traffic made to fool it can pass just under twice the limit in one
//! window's length.

use std::time::Duration;

use super::division::{divide, divide_ceil, product};
use super::outcome::{Outcome, Verdict};
use super::{AMOUNT_MAX, CLOCK_SLACK, amount, window};
use crate::limit::LimitError;
use crate::time::Micros;

/// The numbers of a sliding window counter. Windows are whole multiples of their length since the
/// epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    pub(crate) limit: u64,
    pub(crate) length: Micros,
}

/// The counts of the window that begins at `start` and of the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) current: u64,
    pub(crate) previous: u64,
    pub(crate) start: Micros,
}

impl SlidingWindow {
    /// `limit` units per sliding window of `length`.
    pub fn new(limit: u64, length: Duration) -> Result<Self, LimitError> {
        Ok(Self {
            limit: amount("limit", limit)?,
            length: window(length)?,
        })
    }

    /// The most that passes in one window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of the window.
    pub const fn window(&self) -> Micros {
        self.length
    }

    #[inline(always)]
    pub(crate) fn spend(&self, counts: Counts, cost: u64, now: Micros) -> (Counts, Outcome) {
        let counts = self.roll(counts, now);
        if cost > self.limit {
            return (counts, self.outcome(Verdict::Never, counts, now));
        }
        // All of these are at most 2^53, so the sums fit.
        let room = self.limit.saturating_sub(counts.current);
        let fits = cost <= room
            && product(counts.previous, self.covered(counts, now))
                <= product(room - cost, self.length.get());
        if cost == 0 {
            (counts, self.outcome(Verdict::ALLOW, counts, now))
        } else if fits {
            let spent = Counts {
                current: counts.current + cost,
                ..counts
            };
            (spent, self.outcome(Verdict::ALLOW, spent, now))
        } else {
            let retry_after = self.retry_after(counts, cost, now);
            (
                counts,
                self.outcome(Verdict::Deny { retry_after }, counts, now),
            )
        }
    }

    /// Takes from the current window first, then from the previous one; at most what one check can
    /// have taken.
    pub(crate) fn refund(&self, counts: Counts, cost: u64, now: Micros) -> Counts {
        let cost = cost.min(AMOUNT_MAX);
        let counts = self.roll(counts, now);
        let rest = cost.saturating_sub(counts.current);
        Counts {
            current: counts.current.saturating_sub(cost),
            previous: counts.previous.saturating_sub(rest),
            ..counts
        }
    }

    /// The counts as of the window that holds `now`. A moment slightly before the window under way
    /// still belongs to it; one well before it means that the clock was set back, and then
    /// everything counts as fresh, so that going back never refills.
    #[inline(always)]
    fn roll(&self, counts: Counts, now: Micros) -> Counts {
        let start = Micros::new(now.get() - now.get() % self.length.get());
        if start == counts.start || (start < counts.start && counts.start.since(now) <= CLOCK_SLACK)
        {
            counts
        } else if start < counts.start {
            Counts {
                current: counts
                    .current
                    .saturating_add(counts.previous)
                    .min(AMOUNT_MAX),
                previous: 0,
                start,
            }
        } else if start.since(counts.start) == self.length {
            Counts {
                current: 0,
                previous: counts.current,
                start,
            }
        } else {
            Counts {
                current: 0,
                previous: 0,
                start,
            }
        }
    }

    /// Microseconds until the current window ends.
    fn left_of_window(&self, counts: Counts, now: Micros) -> u64 {
        counts.start.after(self.length).since(now).get()
    }

    /// How much of the previous window the sliding window still covers; it weighs this over the
    /// length.
    fn covered(&self, counts: Counts, now: Micros) -> u64 {
        self.left_of_window(counts, now).min(self.length.get())
    }

    /// The first microsecond at which `cost` fits: in this window if the current count leaves room,
    /// else in the next, where the current count has become the previous one.
    fn retry_after(&self, counts: Counts, cost: u64, now: Micros) -> Micros {
        let left = self.left_of_window(counts, now);
        if counts.current.saturating_add(cost) <= self.limit {
            let weight = self.weight_at_most(self.limit - counts.current - cost, counts.previous);
            Micros::new(left.saturating_sub(weight))
        } else {
            let weight = self.weight_at_most(self.limit - cost, counts.current);
            Micros::new(left.saturating_add(self.length.get() - weight))
        }
    }

    /// How many microseconds of a window may still be covered so that its `count` weighs at most
    /// `room`.
    fn weight_at_most(&self, room: u64, count: u64) -> u64 {
        if room >= count {
            self.length.get()
        } else {
            divide(product(room, self.length.get()), count).0
        }
    }

    #[inline(always)]
    fn outcome(&self, verdict: Verdict, counts: Counts, now: Micros) -> Outcome {
        let left = self.left_of_window(counts, now);
        let previous = divide_ceil(
            product(counts.previous, self.covered(counts, now)),
            self.length.get(),
        );
        let remaining = self
            .limit
            .saturating_sub(counts.current.saturating_add(previous));
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
            remaining,
            reset_after: Micros::new(reset_after),
        }
    }
}
