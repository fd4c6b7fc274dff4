//! What lending units of a counter takes beside the numbers of a check.

use super::{CounterState, PermitCounts, Weight};
use crate::algorithm::{Counts, Outcome, Quota, Rest, Used};
use crate::time::Micros;

/// The numbers by which a script lends units and takes them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lending {
    /// What comes back, in the measure of the counter: what a bucket takes to work it off, or
    /// units.
    pub back: Weight,
    /// So many microseconds for ...
    pub period: u64,
    /// ... so many units, in a bucket; 1 in a window.
    pub per: u64,
}

impl Quota {
    /// The numbers by which a script takes `back` units back, and lends others.
    pub fn lending(&self, back: u64) -> Lending {
        let gcra = match self {
            Self::TokenBucket(bucket) => &bucket.gcra,
            Self::LeakyBucket(bucket) => &bucket.gcra,
            _ => {
                return Lending {
                    back: Weight {
                        micros: back,
                        part: 0,
                    },
                    period: 1,
                    per: 1,
                };
            }
        };
        let (per, period) = gcra.rate();
        Lending {
            back: gcra.weight(back),
            period,
            per,
        }
    }

    /// The state after spending `units`, with what the limit says to it; `None` when the state is
    /// that of another algorithm.
    pub fn step(
        &self,
        seen: CounterState,
        units: u64,
        now: Micros,
    ) -> Option<(CounterState, Outcome)> {
        let bucket = |(Rest { at, part }, outcome)| (CounterState::Bucket { at, part }, outcome);
        match (self, seen) {
            (Self::TokenBucket(quota), CounterState::Bucket { at, part }) => {
                Some(bucket(quota.gcra.spend(Rest { at, part }, units, now)))
            }
            (Self::LeakyBucket(quota), CounterState::Bucket { at, part }) => {
                Some(bucket(quota.spend(Rest { at, part }, units, now)))
            }
            (Self::FixedWindow(quota), CounterState::Fixed { count, ends }) => {
                let (Used { count, ends }, outcome) = quota.spend(Used { count, ends }, units, now);
                Some((CounterState::Fixed { count, ends }, outcome))
            }
            (
                Self::SlidingWindow(quota),
                CounterState::Sliding {
                    current,
                    previous,
                    start,
                },
            ) => {
                let (counts, outcome) = quota.spend(
                    Counts {
                        current,
                        previous,
                        start,
                    },
                    units,
                    now,
                );
                let Counts {
                    current,
                    previous,
                    start,
                } = counts;
                Some((
                    CounterState::Sliding {
                        current,
                        previous,
                        start,
                    },
                    outcome,
                ))
            }
            (Self::SlidingLog(quota), CounterState::Held(held)) => {
                Some(held.step(quota.limit, quota.length, units, now))
            }
            (Self::Concurrency(quota), CounterState::Held(held)) => {
                Some(held.step(quota.limit, quota.permit_timeout, units, now))
            }
            _ => None,
        }
    }

    /// When units that were lent under this name end with their window; never before their time in
    /// a bucket.
    pub(crate) fn edge(&self, generation: u64) -> Option<Micros> {
        match self {
            Self::FixedWindow(_) => Some(Micros::new(generation)),
            Self::SlidingWindow(window) => Some(Micros::new(generation).after(window.length)),
            _ => None,
        }
    }

    /// How long a bucket takes to make up so many units more, rounded up; `None` for what is no
    /// bucket.
    pub(crate) fn time_for(&self, units: u64) -> Option<Micros> {
        let gcra = match self {
            Self::TokenBucket(bucket) => &bucket.gcra,
            Self::LeakyBucket(bucket) => &bucket.gcra,
            _ => return None,
        };
        let Weight { micros, part } = gcra.weight(units);
        Some(Micros::new(micros.saturating_add(u64::from(part > 0))))
    }
}

impl PermitCounts {
    /// What a log or leases hold once these units are among them.
    fn step(self, limit: u64, length: Micros, units: u64, now: Micros) -> (CounterState, Outcome) {
        let outcome = self.outcome(limit, length, units, now);
        let taken = if outcome.verdict.is_allowed() {
            units
        } else {
            0
        };
        let held = Self {
            sum: self.sum.saturating_add(taken),
            until: now.after(outcome.reset_after),
            ..self
        };
        (CounterState::Held(held), outcome)
    }
}
