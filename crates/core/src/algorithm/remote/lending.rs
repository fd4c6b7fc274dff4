//! What a remote store's script needs to lend units of a counter.

use super::{CounterState, DrainTime, EntryTotals};
use crate::algorithm::{BucketState, Outcome, Quota, SlidingCounts, WindowCount};
use crate::time::Micros;

/// The numbers with which a script lends units and takes them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LendingNumbers {
    /// The returned units, in the measure of the counter: for a bucket the time it takes to work
    /// them off, for a window the units themselves (in `micros`).
    pub back: DrainTime,
    /// A bucket refills `per` units in this many microseconds; 1 for a window.
    pub period: u64,
    /// The units that a bucket refills per `period`; 1 for a window.
    pub per: u64,
}

impl Quota {
    /// The numbers with which a script takes `returned` units back and lends others.
    pub fn lending(&self, returned: u64) -> LendingNumbers {
        let gcra = match self {
            Self::TokenBucket(bucket) => &bucket.gcra,
            Self::LeakyBucket(bucket) => &bucket.gcra,
            _ => {
                let back = DrainTime {
                    micros: returned,
                    part: 0,
                };
                return LendingNumbers {
                    back,
                    period: 1,
                    per: 1,
                };
            }
        };

        let (per, period) = gcra.rate();
        LendingNumbers {
            back: gcra.drain_time(returned),
            period,
            per,
        }
    }

    /// Spends `units` from `state` if they fit, and returns the state after that and the outcome;
    /// `None` when the state belongs to another algorithm.
    pub fn spend(
        &self,
        state: CounterState,
        units: u64,
        now: Micros,
    ) -> Option<(CounterState, Outcome)> {
        match (self, state) {
            (Self::TokenBucket(quota), CounterState::Bucket { at, part }) => {
                let (next, outcome) = quota.gcra.spend(BucketState { at, part }, units, now);
                Some((next.into(), outcome))
            }

            (Self::LeakyBucket(quota), CounterState::Bucket { at, part }) => {
                let (next, outcome) = quota.spend(BucketState { at, part }, units, now);
                Some((next.into(), outcome))
            }

            (Self::FixedWindow(quota), CounterState::Fixed { count, ends }) => {
                let (next, outcome) = quota.spend(WindowCount { count, ends }, units, now);
                Some((next.into(), outcome))
            }

            (
                Self::SlidingWindow(quota),
                CounterState::Sliding {
                    current,
                    previous,
                    start,
                },
            ) => {
                let counts = SlidingCounts {
                    current,
                    previous,
                    start,
                };
                let (next, outcome) = quota.spend(counts, units, now);
                Some((next.into(), outcome))
            }

            (Self::SlidingLog(quota), CounterState::Entries(counts)) => {
                Some(counts.spend(quota.limit, quota.length, units, now))
            }

            (Self::Concurrency(quota), CounterState::Entries(counts)) => {
                Some(counts.spend(quota.limit, quota.permit_timeout, units, now))
            }

            _ => None,
        }
    }

    /// When the window of units that were lent under this generation ends. `None` for a bucket,
    /// whose units are not bound to a window.
    pub(crate) fn window_end(&self, generation: u64) -> Option<Micros> {
        match self {
            Self::FixedWindow(_) => Some(Micros::new(generation)),
            Self::SlidingWindow(window) => Some(Micros::new(generation).after(window.length)),
            _ => None,
        }
    }

    /// How long a bucket takes to refill `units`, rounded up; `None` for other algorithms.
    pub(crate) fn refill_time(&self, units: u64) -> Option<Micros> {
        let gcra = match self {
            Self::TokenBucket(bucket) => &bucket.gcra,
            Self::LeakyBucket(bucket) => &bucket.gcra,
            _ => return None,
        };
        let DrainTime { micros, part } = gcra.drain_time(units);
        Some(Micros::new(micros.saturating_add(u64::from(part > 0))))
    }
}

impl From<BucketState> for CounterState {
    fn from(BucketState { at, part }: BucketState) -> Self {
        Self::Bucket { at, part }
    }
}

impl From<WindowCount> for CounterState {
    fn from(WindowCount { count, ends }: WindowCount) -> Self {
        Self::Fixed { count, ends }
    }
}

impl From<SlidingCounts> for CounterState {
    fn from(counts: SlidingCounts) -> Self {
        Self::Sliding {
            current: counts.current,
            previous: counts.previous,
            start: counts.start,
        }
    }
}

impl EntryTotals {
    /// Spends `units` from a log or a concurrency limit if they fit.
    fn spend(self, limit: u64, length: Micros, units: u64, now: Micros) -> (CounterState, Outcome) {
        let outcome = self.outcome(limit, length, units, now);
        let spent = if outcome.verdict.is_allowed() {
            units
        } else {
            0
        };

        let counts = Self {
            sum: self.sum.saturating_add(spent),
            until: now.after(outcome.reset_after),
            ..self
        };
        (CounterState::Entries(counts), outcome)
    }
}
