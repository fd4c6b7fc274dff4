//! Sliding window log: every hit stamped, so that no interval of the window's length ever holds
//! more than the limit.
//!
//! Exact, and paid for in memory. A key keeps at most [`LOG_HITS_MAX`] stamps; when more would be
//! needed, the two oldest become one with the later stamp. That can deny a little longer than the
//! exact answer and never admits more.

use std::collections::VecDeque;
use std::time::Duration;

use super::outcome::{Outcome, Verdict};
use super::{CLOCK_SLACK, amount, window};
use crate::limit::LimitError;
use crate::time::Micros;

/// The most stamps one key keeps.
pub const LOG_HITS_MAX: usize = 8_192;

/// The numbers of a sliding window log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    pub(crate) limit: u64,
    pub(crate) length: Micros,
}

/// When, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) at: Micros,
    pub(crate) cost: u64,
}

/// The hits of one key, oldest first, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    hits: VecDeque<Hit>,
    sum: u64,
}

impl SlidingLog {
    /// `limit` units in any interval of `length`.
    pub fn new(limit: u64, length: Duration) -> Result<Self, LimitError> {
        Ok(Self {
            limit: amount("limit", limit)?,
            length: window(length)?,
        })
    }

    /// The most that passes in any interval of the window's length.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of the window.
    pub const fn window(&self) -> Micros {
        self.length
    }

    /// What would happen to `cost` now. The log must have been [settled](Self::settle) at the same
    /// moment.
    pub(crate) fn look(&self, log: &Log, cost: u64, now: Micros) -> Outcome {
        let verdict = if cost > self.limit {
            Verdict::Never
        } else if cost == 0 || cost <= self.limit.saturating_sub(log.sum) {
            Verdict::ALLOW
        } else {
            Verdict::Deny {
                retry_after: self.retry_after(log, cost, now),
            }
        };
        let sum = log
            .sum
            .saturating_add(if verdict.is_allowed() { cost } else { 0 });
        let newest = log.hits.back().map(|hit| hit.at);
        let last = if verdict.is_allowed() && cost > 0 {
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

    /// Drops what has left the window, and restamps with `now` what comes from before the clock was
    /// set back. Changes no answer, so it may be done at any time.
    pub(crate) fn settle(&self, log: &mut Log, now: Micros) {
        while let Some(hit) = log
            .hits
            .front()
            .filter(|hit| hit.at.after(self.length) <= now)
            .copied()
        {
            log.hits.pop_front();
            log.sum = log.sum.saturating_sub(hit.cost);
        }
        let mut restamped = false;
        for hit in log
            .hits
            .iter_mut()
            .rev()
            .take_while(|hit| hit.at.since(now) > CLOCK_SLACK)
        {
            hit.at = now;
            restamped = true;
        }
        if restamped {
            log.hits.make_contiguous().sort_by_key(|hit| hit.at);
        }
    }

    /// The moment at which the log is empty if nothing more comes.
    pub(crate) fn full_at(&self, log: &Log) -> Micros {
        log.hits
            .back()
            .map_or(Micros::ZERO, |hit| hit.at.after(self.length))
    }

    /// The oldest hits must go until their costs make the room that is missing.
    fn retry_after(&self, log: &Log, cost: u64, now: Micros) -> Micros {
        let mut missing = log.sum.saturating_add(cost).saturating_sub(self.limit);
        let last = log.hits.iter().find(|hit| {
            missing = missing.saturating_sub(hit.cost);
            missing == 0
        });
        last.map_or(Micros::ZERO, |hit| hit.at.after(self.length).since(now))
    }
}

impl Log {
    /// The cost of all hits kept.
    pub(crate) const fn sum(&self) -> u64 {
        self.sum
    }

    /// The hits kept, oldest first.
    pub(crate) fn hits(&self) -> impl ExactSizeIterator<Item = Hit> + '_ {
        self.hits.iter().copied()
    }

    /// Stamps a hit that was found to fit.
    pub(crate) fn push(&mut self, cost: u64, now: Micros) {
        if cost == 0 {
            return;
        }
        self.sum = self.sum.saturating_add(cost);
        match self.hits.back_mut() {
            Some(last) if last.at >= now => last.cost = last.cost.saturating_add(cost),
            _ => self.hits.push_back(Hit { at: now, cost }),
        }
        if self.hits.len() > LOG_HITS_MAX
            && let Some(oldest) = self.hits.pop_front()
            && let Some(next) = self.hits.front_mut()
        {
            next.cost = next.cost.saturating_add(oldest.cost);
        }
    }

    /// Gives back the newest cost first.
    pub(crate) fn refund(&mut self, mut cost: u64) {
        while cost > 0 {
            let Some(last) = self.hits.back_mut() else {
                return;
            };
            let back = last.cost.min(cost);
            last.cost -= back;
            cost -= back;
            self.sum = self.sum.saturating_sub(back);
            if last.cost == 0 {
                self.hits.pop_back();
            }
        }
    }
}
