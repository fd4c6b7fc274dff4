//! Leaky bucket, in both meanings of the word.
//!
//! As a meter it is a token bucket seen from the other side: requests fill it, it drains at the
//! leak rate, and what would overflow is refused. As a queue it makes the outflow constant: each
//! admitted request is told how long to wait for its turn, and one that would find the queue full
//! is refused.

use super::gcra::{Gcra, Rest};
use super::outcome::{Outcome, Verdict};
use super::rate::Rate;
use crate::limit::LimitError;
use crate::time::Micros;

/// What a leaky bucket does with requests that it admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeakyMode {
    /// Lets them through at once and refuses what overflows.
    Meter,
    /// Tells each how long to wait, so that they leave at the leak rate.
    Queue,
}

/// The numbers of a leaky bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeakyBucket {
    pub(crate) gcra: Gcra,
    pub(crate) mode: LeakyMode,
}

impl LeakyBucket {
    /// A bucket that holds `capacity` units and leaks at `rate`, empty at first.
    pub fn new(mode: LeakyMode, capacity: u64, rate: Rate) -> Result<Self, LimitError> {
        Gcra::new(capacity, rate).map(|gcra| Self { gcra, mode })
    }

    /// The most it holds.
    pub const fn capacity(&self) -> u64 {
        self.gcra.capacity
    }

    /// The leak rate in lowest terms: so many units every so many microseconds.
    pub const fn leak(&self) -> (u64, u64) {
        self.gcra.rate()
    }

    /// How long a full bucket takes to drain.
    pub const fn span(&self) -> Micros {
        self.gcra.span
    }

    /// Meter or queue.
    pub const fn mode(&self) -> LeakyMode {
        self.mode
    }

    #[inline]
    pub(crate) fn spend(&self, rest: Rest, cost: u64, now: Micros) -> (Rest, Outcome) {
        let (next, mut outcome) = self.gcra.spend(rest, cost, now);
        if self.mode == LeakyMode::Queue && outcome.verdict.is_allowed() {
            outcome.verdict = Verdict::Allow {
                wait: self.gcra.wait(rest, now),
            };
        }
        (next, outcome)
    }
}
