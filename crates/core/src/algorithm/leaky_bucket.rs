//! Leaky bucket, in both meanings of the term.
//!
//! A leaky bucket as a meter mirrors a token bucket: requests fill it, it drains at the leak rate,
//! and what would overflow is denied. A leaky bucket as a queue makes the outflow constant: each
//! admitted request gets the time it must wait in the queue, and a request that finds the queue
//! full is denied.

use super::gcra::{BucketState, Gcra};
use super::outcome::{FixedStateAlgorithm, Outcome, Verdict};
use crate::limit_error::LimitError;
use crate::rate::Rate;
use crate::time::Micros;

/// What a leaky bucket does with requests that it admits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum LeakyMode {
    /// Admits them without a wait and denies what would overflow. The default.
    #[default]
    Meter,
    /// Gives each a time to wait, so that they leave the queue at the leak rate.
    Queue,
}

/// The parameters of a leaky bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeakyBucket {
    pub(crate) gcra: Gcra,
    pub(crate) mode: LeakyMode,
}

impl LeakyBucket {
    /// A bucket that holds `capacity` units and leaks at `rate`, initially empty.
    pub fn new(mode: LeakyMode, capacity: u64, rate: Rate) -> Result<Self, LimitError> {
        Gcra::new(capacity, rate).map(|gcra| Self { gcra, mode })
    }

    /// The most units the bucket holds.
    pub const fn capacity(&self) -> u64 {
        self.gcra.capacity
    }

    /// The leak rate in lowest terms, as `(units, microseconds)`.
    pub const fn leak(&self) -> (u64, u64) {
        self.gcra.rate()
    }

    /// How long a full bucket takes to drain.
    pub const fn span(&self) -> Micros {
        self.gcra.span
    }

    /// Whether the bucket is a meter or a queue.
    pub const fn mode(&self) -> LeakyMode {
        self.mode
    }
}

impl FixedStateAlgorithm for LeakyBucket {
    type State = BucketState;

    /// Spends `cost` when it fits. The verdict of a queue contains the wait.
    #[inline(always)]
    fn apply(&self, state: BucketState, cost: u64, now: Micros) -> (BucketState, Verdict) {
        let (next, verdict) = self.gcra.apply(state, cost, now);
        if self.mode == LeakyMode::Queue && verdict.is_allowed() {
            let wait = self.gcra.wait(state, now);
            return (next, Verdict::Allow { wait });
        }
        (next, verdict)
    }

    #[inline(always)]
    fn outcome(&self, state: BucketState, verdict: Verdict, now: Micros) -> Outcome {
        self.gcra.outcome(state, verdict, now)
    }

    fn charge(&self, state: BucketState, cost: u64, debt_max: u64, now: Micros) -> BucketState {
        self.gcra.charge(state, cost, debt_max, now)
    }

    fn refund(&self, state: BucketState, cost: u64, now: Micros) -> BucketState {
        self.gcra.refund(state, cost, now)
    }
}
