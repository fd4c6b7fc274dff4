//! Random numbers for the experiment, the same in every run.

use fastrand::Rng;

#[derive(Debug)]
pub(crate) struct Random(Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0.u32(..bound.max(1))
    }

    /// A number in the range from 0 (inclusive) to 1 (exclusive).
    pub(crate) fn fraction(&mut self) -> f64 {
        self.0.f64()
    }
}
