//! The state of a counter as a remote store returns it, and what follows from it.

use crate::algorithm::entries::EntryTotals;
use crate::algorithm::fixed_window::WindowCount;
use crate::algorithm::gcra::BucketState;
use crate::algorithm::outcome::{FixedStateAlgorithm, Outcome};
use crate::algorithm::quota::Quota;
use crate::algorithm::sliding_window::SlidingCounts;
use crate::time::Micros;

/// The state of a counter before a demand is spent, corrected if the clock was set back since.
///
/// It may still contain entries that have expired by the moment of the decision. All fields of a
/// counter that was never used are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterState {
    /// The state of a token bucket or of either leaky bucket.
    Bucket(BucketState),
    /// The state of a fixed window.
    Fixed(WindowCount),
    /// The state of a sliding window.
    Sliding(SlidingCounts),
    /// The hits of a log or the permits of a concurrency limit.
    Entries(EntryTotals),
}

impl Quota {
    /// The outcome of spending `cost` from `state`; `None` when the state belongs to another
    /// algorithm.
    pub fn outcome(&self, state: CounterState, cost: u64, now: Micros) -> Option<Outcome> {
        self.spend(state, cost, now).map(|(_, outcome)| outcome)
    }

    /// Spends `units` from `state` if they fit, and returns the state after that and the outcome;
    /// `None` when the state belongs to another algorithm.
    pub fn spend(
        &self,
        state: CounterState,
        units: u64,
        now: Micros,
    ) -> Option<(CounterState, Outcome)> {
        use CounterState::{Bucket, Entries, Fixed, Sliding};

        Some(match (self, state) {
            (Self::TokenBucket(quota), Bucket(state)) => {
                wrap(Bucket, quota.spend(state, units, now))
            }
            (Self::LeakyBucket(quota), Bucket(state)) => {
                wrap(Bucket, quota.spend(state, units, now))
            }
            (Self::FixedWindow(quota), Fixed(state)) => wrap(Fixed, quota.spend(state, units, now)),
            (Self::SlidingWindow(quota), Sliding(state)) => {
                wrap(Sliding, quota.spend(state, units, now))
            }
            (Self::SlidingLog(quota), Entries(state)) => {
                wrap(Entries, state.spend(quota.limit, quota.length, units, now))
            }
            (Self::Concurrency(quota), Entries(state)) => {
                wrap(Entries, quota.spend(state, units, now))
            }
            _ => return None,
        })
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
}

fn wrap<S>(
    kind: impl FnOnce(S) -> CounterState,
    (state, outcome): (S, Outcome),
) -> (CounterState, Outcome) {
    (kind(state), outcome)
}
