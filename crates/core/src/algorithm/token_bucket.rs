//! Token bucket: bursts up to the capacity, then the refill rate. In any interval of length s at
//! most `capacity + rate * s` passes, exactly.

use super::gcra::Gcra;
use super::rate::Rate;
use crate::limit::LimitError;
use crate::time::Micros;

/// The numbers of a token bucket: how many tokens it holds and how fast they come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    pub(crate) gcra: Gcra,
}

impl TokenBucket {
    /// A bucket of `capacity` tokens, refilled at `rate`, full at first.
    pub fn new(capacity: u64, rate: Rate) -> Result<Self, LimitError> {
        Gcra::new(capacity, rate).map(|gcra| Self { gcra })
    }

    /// The most tokens it holds.
    pub const fn capacity(&self) -> u64 {
        self.gcra.capacity
    }

    /// The refill rate in lowest terms: so many tokens every so many microseconds.
    pub const fn refill(&self) -> (u64, u64) {
        self.gcra.rate()
    }

    /// How long an empty bucket takes to fill.
    pub const fn span(&self) -> Micros {
        self.gcra.span
    }
}
