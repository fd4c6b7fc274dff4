//! Sliding window log: a timestamp for every hit, so that no interval of the window's length ever
//! contains more than the limit.
//!
//! The log is exact at the cost of memory. A key keeps at most [`LOG_HITS_MAX`] hits. Beyond that
//! the two oldest hits are merged into one with the later timestamp. This can deny for slightly
//! longer than an unbounded log would, and it never allows more.

use std::collections::VecDeque;
use std::time::Duration;

use super::entries::EntryTotals;
use super::outcome::{CLOCK_SLACK, Outcome, charged_count};
use crate::limit_error::{LimitError, validate_amount, validate_window};
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

    /// The outcome of spending `cost` at `now`. Prunes the log.
    pub(crate) fn evaluate(&self, log: &mut HitLog, cost: u64, now: Micros) -> Outcome {
        self.prune(log, now);
        let expiries = log.hits.iter().map(|hit| (self.expiry(hit), hit.cost));
        let totals = EntryTotals::new(log.sum, self.limit, cost, expiries);
        totals.spend(self.limit, self.length, cost, now).1
    }

    /// Drops hits that have left the window. Hits from before the clock was set back get the
    /// timestamp `now`. Pruning changes no outcome, so it may happen at any time.
    pub(crate) fn prune(&self, log: &mut HitLog, now: Micros) {
        while let Some(hit) = log.hits.front().filter(|hit| self.expiry(hit) <= now) {
            log.sum = log.sum.saturating_sub(hit.cost);
            log.hits.pop_front();
        }

        let is_ahead = |hit: &&mut LogHit| hit.at.since(now) > CLOCK_SLACK;
        let ahead = log.hits.iter_mut().rev().take_while(is_ahead);
        let restamped = ahead.map(|hit| hit.at = now).count();
        if restamped > 0 {
            log.hits.make_contiguous().sort_by_key(|hit| hit.at);
        }
    }

    /// The moment at which the log is empty if no more hits are added.
    pub(crate) fn empty_at(&self, log: &HitLog) -> Micros {
        let newest = log.hits.back();
        newest.map_or(Micros::ZERO, |hit| self.expiry(hit))
    }

    /// The moment at which a hit leaves the window.
    fn expiry(&self, hit: &LogHit) -> Micros {
        hit.at.after(self.length)
    }
}

impl HitLog {
    /// The cost of all hits in the log.
    pub(crate) const fn sum(&self) -> u64 {
        self.sum
    }

    /// The time of the oldest hit.
    pub(crate) fn oldest(&self) -> Option<Micros> {
        self.hits.front().map(|hit| hit.at)
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

    /// Adds a hit whether it fits or not. The log then owes at most `debt_max` units.
    pub(crate) fn charge(&mut self, cost: u64, limit: u64, debt_max: u64, now: Micros) {
        let charged = charged_count(self.sum, cost, limit, debt_max);
        self.push(charged - self.sum, now);
    }

    /// The time of the newest hit, for [`give_back`](Self::give_back).
    pub(crate) fn newest(&self) -> Micros {
        self.hits.back().map_or(Micros::ZERO, |hit| hit.at)
    }

    /// Removes `units` of a charge that was made at this time: from its own hit, or if hits have
    /// been merged from earlier ones.
    pub(crate) fn give_back(&mut self, mut units: u64, charged_at: Micros) {
        let hits = self.hits.iter_mut().rev();
        for hit in hits.skip_while(|hit| hit.at > charged_at) {
            let returned = hit.cost.min(units);
            hit.cost -= returned;
            units -= returned;
            self.sum = self.sum.saturating_sub(returned);
        }
        self.hits.retain(|hit| hit.cost > 0);
    }

    /// Removes `cost` units, starting with the newest hit.
    pub(crate) fn refund(&mut self, cost: u64) {
        self.give_back(cost, Micros::new(u64::MAX));
    }
}
