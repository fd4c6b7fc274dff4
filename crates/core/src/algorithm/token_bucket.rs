//! Token bucket: allows bursts up to the capacity, then the refill rate. In any interval of length
//! s it allows at most `capacity + rate * s` units, exactly.

use super::gcra::{BucketState, Gcra};
use super::outcome::{FixedStateAlgorithm, Outcome, Verdict};
use crate::limit_error::LimitError;
use crate::rate::Rate;
use crate::time::Micros;

/// The parameters of a token bucket: its capacity and its refill rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    pub(crate) gcra: Gcra,
}

impl TokenBucket {
    /// A bucket of `capacity` tokens that refills at `rate`, initially full.
    pub fn new(capacity: u64, rate: Rate) -> Result<Self, LimitError> {
        Gcra::new(capacity, rate).map(|gcra| Self { gcra })
    }

    /// The most tokens the bucket holds.
    pub const fn capacity(&self) -> u64 {
        self.gcra.capacity
    }

    /// The refill rate in lowest terms, as `(tokens, microseconds)`.
    pub const fn refill(&self) -> (u64, u64) {
        self.gcra.rate()
    }

    /// How long an empty bucket takes to fill.
    pub const fn span(&self) -> Micros {
        self.gcra.span
    }
}

impl FixedStateAlgorithm for TokenBucket {
    type State = BucketState;

    #[inline(always)]
    fn apply(&self, state: BucketState, cost: u64, now: Micros) -> (BucketState, Verdict) {
        self.gcra.apply(state, cost, now)
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
