//! The quotas whose state has a fixed size: how they read it from a slot and write it there.

use super::context::DemandContext;
use super::slot::{QuotaUsage, SlotState, StateKind};
use crate::algorithm::{
    BucketState, FixedStateAlgorithm, FixedWindow, Gcra, LeakyBucket, Outcome, Quota,
    SlidingCounts, SlidingWindow, TokenBucket, WindowCount,
};
use crate::store::Intent;
use crate::time::Micros;

/// The effect of a demand on a counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evaluation {
    pub(super) outcome: Outcome,
    /// The state after the charge; `None` if it has no fixed size.
    pub(super) next: Option<SlotState>,
    /// True when `next` must be stored even if nothing is charged: the clock was set back, or the
    /// parameters of a bucket have changed.
    pub(super) must_store: bool,
}

/// Units that a counter gets back.
#[derive(Clone, Copy, Debug)]
pub(super) enum UnitReturn {
    /// Units that someone has spent, whenever that was.
    Refund(u64),
    /// Units that a reservation has charged in this window, as far as the counter still has them. A
    /// bucket has low-water marks for that instead, and does not change.
    GiveBack { units: u64, charged_in: Micros },
}

/// The format of a quota's state in a slot.
pub(super) trait SlotFormat: FixedStateAlgorithm {
    /// Reads the state; `None` if it was last used with other parameters of the quota.
    fn read(&self, stored: &SlotState) -> Option<Self::State>;

    /// Reads or converts the state, and returns whether it was converted.
    fn read_at(&self, stored: &SlotState, _now: Micros) -> (Self::State, bool) {
        (self.read(stored).unwrap_or_default(), false)
    }

    /// Writes a state.
    fn write(&self, state: Self::State) -> SlotState;

    /// The moment of a state that only moves back when the clock is set back.
    fn moment(state: &Self::State) -> Micros;
}

/// A [`SlotFormat`] behind a reference, for paths on which a dynamic call does not matter.
pub(super) trait SmallQuota {
    /// Evaluates a demand. If it is only counted, the next state is the one after the charge,
    /// whether it fits or not.
    fn evaluate(&self, stored: Option<&SlotState>, context: &DemandContext<'_>) -> Evaluation;

    /// The state after units were returned.
    fn after_return(&self, stored: &SlotState, returned: UnitReturn, now: Micros) -> SlotState;

    /// The window to which the counter was just charged; zero for a bucket.
    fn window_of_charge(&self, stored: &SlotState, now: Micros) -> Micros;
}

impl<Q: SlotFormat> SmallQuota for Q {
    fn evaluate(&self, stored: Option<&SlotState>, context: &DemandContext<'_>) -> Evaluation {
        let &DemandContext { cost, now, .. } = context;
        let (state, is_converted) =
            stored.map_or_else(Default::default, |stored| self.read_at(stored, now));
        let (mut next, outcome) = self.spend(state, cost, now);
        let must_store = is_converted || Self::moment(&next) < Self::moment(&state);
        if context.intent == Intent::Count && !outcome.verdict.is_allowed() {
            next = self.charge(state, cost, context.limit.debt_max(context.quota), now);
        }
        Evaluation {
            outcome,
            next: Some(self.write(next)),
            must_store,
        }
    }

    fn after_return(&self, stored: &SlotState, returned: UnitReturn, now: Micros) -> SlotState {
        let (state, _) = self.read_at(stored, now);
        self.write(match returned {
            UnitReturn::Refund(cost) => self.refund(state, cost, now),
            UnitReturn::GiveBack { units, charged_in } => {
                self.give_back(state, units, charged_in, now)
            }
        })
    }

    fn window_of_charge(&self, stored: &SlotState, now: Micros) -> Micros {
        Self::charged_in(self.read_at(stored, now).0)
    }
}

/// The quota, if its state has a fixed size.
pub(super) fn small_quota(quota: &Quota) -> Option<&dyn SmallQuota> {
    match quota {
        Quota::SlidingWindow(quota) => Some(quota),
        Quota::TokenBucket(quota) => Some(quota),
        Quota::LeakyBucket(quota) => Some(quota),
        Quota::FixedWindow(quota) => Some(quota),
        Quota::SlidingLog(_) | Quota::Concurrency(_) => None,
    }
}

impl SlotFormat for SlidingWindow {
    #[inline(always)]
    fn read(&self, stored: &SlotState) -> Option<SlidingCounts> {
        Some(SlidingCounts {
            current: stored.first,
            previous: stored.second,
            start: stored.until.since(self.length).since(self.length),
        })
    }

    #[inline(always)]
    fn write(&self, counts: SlidingCounts) -> SlotState {
        let SlidingCounts {
            current,
            previous,
            start,
        } = counts;
        let until = start.after(self.length).after(self.length);
        SlotState::new(StateKind::Sliding, [current, previous], until)
            .with_usage(QuotaUsage::from_ratio(current.max(previous), self.limit))
    }

    #[inline(always)]
    fn moment(counts: &SlidingCounts) -> Micros {
        counts.start
    }
}

impl SlotFormat for FixedWindow {
    #[inline(always)]
    fn read(&self, stored: &SlotState) -> Option<WindowCount> {
        Some(WindowCount {
            count: stored.first,
            ends: stored.until,
        })
    }

    #[inline(always)]
    fn write(&self, window: WindowCount) -> SlotState {
        SlotState::new(StateKind::Fixed, [window.count, self.limit], window.ends)
    }

    #[inline(always)]
    fn moment(window: &WindowCount) -> Micros {
        window.ends
    }
}

macro_rules! bucket_format {
    ($($quota:ty),*) => {$(
        impl SlotFormat for $quota {
            #[inline(always)]
            fn read(&self, stored: &SlotState) -> Option<BucketState> {
                let is_same = stored.second == self.gcra.span.get();
                is_same.then(|| bucket_state(stored))
            }

            fn read_at(&self, stored: &SlotState, now: Micros) -> (BucketState, bool) {
                read_bucket(&self.gcra, stored, now)
            }

            #[inline(always)]
            fn write(&self, state: BucketState) -> SlotState {
                write_bucket(&self.gcra, state)
            }

            #[inline(always)]
            fn moment(state: &BucketState) -> Micros {
                state.at
            }
        }
    )*};
}
bucket_format!(TokenBucket, LeakyBucket);

#[inline(always)]
const fn bucket_state(stored: &SlotState) -> BucketState {
    BucketState {
        at: stored.until,
        part: stored.first,
        is_in_debt: stored.is(StateKind::IndebtedBucket),
    }
}

/// Reads the state of a bucket, and returns whether it was converted from other parameters.
pub(super) fn read_bucket(gcra: &Gcra, stored: &SlotState, now: Micros) -> (BucketState, bool) {
    let state = bucket_state(stored);
    match gcra.convert(state, Micros::new(stored.second), now) {
        Some(converted) => (converted, true),
        None => (state, false),
    }
}

/// Writes the state of a bucket, and the span with which the bucket is used, so that a change of
/// its parameters is noticed.
#[inline(always)]
pub(super) fn write_bucket(gcra: &Gcra, state: BucketState) -> SlotState {
    let kind = if state.is_in_debt {
        StateKind::IndebtedBucket
    } else {
        StateKind::Bucket
    };
    SlotState::new(kind, [state.part, gcra.span.get()], state.at)
}
