//! Sliding window log: a timestamp for every hit, so that no interval of the window's length ever
//! contains more than the limit.
//!
//! The log is exact at the cost of memory. A key keeps at most [`LOG_HITS_MAX`] hits. Beyond that
//! the two oldest hits are merged into one with the later timestamp. This can deny for slightly
//! longer than an unbounded log would, and it never allows more.

use std::collections::VecDeque;
use std::time::Duration;

use super::outcome::{Outcome, Verdict};
use super::{CLOCK_SLACK, validate_amount, validate_window};
use crate::limit::LimitError;
use crate::time::Micros;

/// The most hits one key keeps.
pub const LOG_HITS_MAX: usize = 8_192;

/// The parameters of a sliding window log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    pub(crate) limit: u64,
    pub(crate) length: Micros,
}

/// The units spent at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogHit {
    pub(crate) at: Micros,
    pub(crate) cost: u64,
}

/// The hits of one key, oldest first, and the sum of their costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HitLog {
    hits: VecDeque<LogHit>,
    sum: u64,
}

impl SlidingLog {
    /// `limit` units in any interval of `length`.
    pub fn new(limit: u64, length: Duration) -> Result<Self, LimitError> {
        Ok(Self {
            limit: validate_amount("limit", limit)?,
            length: validate_window(length)?,
        })
    }

    /// The most units allowed in any interval of the window's length.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of the window.
    pub const fn window(&self) -> Micros {
        self.length
    }

    /// The outcome of spending `cost` at `now`. The log must have been [pruned](Self::prune) at the
    /// same moment.
    pub(crate) fn evaluate(&self, log: &HitLog, cost: u64, now: Micros) -> Outcome {
        let verdict = if cost > self.limit {
            Verdict::Never
        } else if cost == 0 || cost <= self.limit.saturating_sub(log.sum) {
            Verdict::ALLOW
        } else {
            Verdict::Deny {
                retry_after: self.retry_after(log, cost, now),
            }
        };

        let spent = if verdict.is_allowed() { cost } else { 0 };
        let sum = log.sum.saturating_add(spent);
        let newest = log.hits.back().map(|hit| hit.at);
        let last = if spent > 0 {
            newest.max(Some(now))
        } else {
            newest
        };

        Outcome {
            verdict,
            limit: self.limit,
            remaining: self.limit.saturating_sub(sum),
            reset_after: last.map_or(Micros::ZERO, |at| at.after(self.length).since(now)),
        }
    }

    /// Drops hits that have left the window. Hits from before the clock was set back get the
    /// timestamp `now`. Pruning changes no outcome, so it may happen at any time.
    pub(crate) fn prune(&self, log: &mut HitLog, now: Micros) {
        while let Some(hit) = log
            .hits
            .front()
            .filter(|hit| hit.at.after(self.length) <= now)
            .copied()
        {
            log.hits.pop_front();
            log.sum = log.sum.saturating_sub(hit.cost);
        }

        let mut is_restamped = false;
        for hit in log
            .hits
            .iter_mut()
            .rev()
            .take_while(|hit| hit.at.since(now) > CLOCK_SLACK)
        {
            hit.at = now;
            is_restamped = true;
        }
        if is_restamped {
            log.hits.make_contiguous().sort_by_key(|hit| hit.at);
        }
    }

    /// The moment at which the log is empty if no more hits are added.
    pub(crate) fn empty_at(&self, log: &HitLog) -> Micros {
        log.hits
            .back()
            .map_or(Micros::ZERO, |hit| hit.at.after(self.length))
    }

    /// How long until the oldest hits that make room for `cost` have left the window.
    fn retry_after(&self, log: &HitLog, cost: u64, now: Micros) -> Micros {
        let mut missing = log.sum.saturating_add(cost).saturating_sub(self.limit);
        let last = log.hits.iter().find(|hit| {
            missing = missing.saturating_sub(hit.cost);
            missing == 0
        });

        last.map_or(Micros::ZERO, |hit| hit.at.after(self.length).since(now))
    }
}

impl HitLog {
    /// The cost of all hits in the log.
    pub(crate) const fn sum(&self) -> u64 {
        self.sum
    }

    /// The hits in the log, oldest first.
    pub(crate) fn hits(&self) -> impl ExactSizeIterator<Item = LogHit> + '_ {
        self.hits.iter().copied()
    }

    /// Adds a hit that fits.
    pub(crate) fn push(&mut self, cost: u64, now: Micros) {
        if cost == 0 {
            return;
        }

        self.sum = self.sum.saturating_add(cost);
        match self.hits.back_mut() {
            Some(last) if last.at >= now => last.cost = last.cost.saturating_add(cost),
            _ => self.hits.push_back(LogHit { at: now, cost }),
        }

        // Merge the two oldest hits when the log is full.
        if self.hits.len() > LOG_HITS_MAX
            && let Some(oldest) = self.hits.pop_front()
            && let Some(next) = self.hits.front_mut()
        {
            next.cost = next.cost.saturating_add(oldest.cost);
        }
    }

    /// Removes `cost` units, starting with the newest hit.
    pub(crate) fn refund(&mut self, mut cost: u64) {
        while cost > 0 {
            let Some(last) = self.hits.back_mut() else {
                return;
            };

            let refunded = last.cost.min(cost);
            last.cost -= refunded;
            cost -= refunded;
            self.sum = self.sum.saturating_sub(refunded);
            if last.cost == 0 {
                self.hits.pop_back();
            }
        }
    }
}
