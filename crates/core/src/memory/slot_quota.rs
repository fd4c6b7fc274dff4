//! The quotas whose state fits into a slot: how they read it, spend from it and refund to it.

use super::context::DemandContext;
use super::slot::{Kind, QuotaUsage, Slot};
use crate::algorithm::{
    BucketState, Concurrency, FixedStateAlgorithm, FixedWindow, Gcra, LeakyBucket, LeakyMode,
    Outcome, Quota, SlidingCounts, SlidingLog, SlidingWindow, TokenBucket, WindowCount,
};
use crate::key::Fingerprint;
use crate::store::Intent;
use crate::time::Micros;

/// What a demand would do to a counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evaluation {
    pub(super) outcome: Outcome,
    /// The slot if the demand is charged; vacant when the state is in the side table.
    pub(super) next: Slot,
    /// True when `next` must be stored even if nothing is charged: the clock was set back, or the
    /// parameters of a bucket have changed.
    pub(super) must_store: bool,
}

/// A quota whose state fits into a slot. A counter that was never used has no slot.
pub(super) trait SlotQuota {
    /// Evaluates a demand of `cost` without changing the slot.
    fn evaluate(
        &self,
        slot: Option<&Slot>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Micros,
    ) -> Evaluation;

    /// Evaluates a demand without changing the slot. If it is only counted, the next slot is the one
    /// after the charge, whether it fits or not.
    fn evaluate_demand(&self, slot: Option<&Slot>, context: &DemandContext<'_>) -> Evaluation;

    /// The slot without `units` that a reservation has charged in this window. That of a bucket does
    /// not change.
    fn give_back_slot(&self, slot: &Slot, units: u64, charged_in: Micros, now: Micros) -> Slot;

    /// The window to which the slot was just charged; zero for a bucket.
    fn charged_in_slot(&self, slot: &Slot, now: Micros) -> Micros;

    /// The slot with `cost` units refunded.
    fn refund_slot(&self, slot: &Slot, cost: u64, now: Micros) -> Slot;

    /// The numbers that tell two quotas of one shape apart.
    fn numbers(&self) -> [u64; 3];

    /// The last moment up to which the order and the times of spends do not matter: any of them
    /// leads to the same state, and what fits now also fits later. `None` if they always matter.
    fn orderless_until(&self, slot: &Slot) -> Option<Micros>;
}

/// How the state of a quota is written into a slot.
pub(super) trait SlotFormat: FixedStateAlgorithm {
    /// The state in a slot, and whether it was converted from other parameters of the quota.
    fn read(&self, slot: &Slot, now: Micros) -> (Self::State, bool);

    /// The moment of a state that only moves back when the clock is set back.
    fn moment(state: &Self::State) -> Micros;

    /// The slot of a state.
    fn write(&self, fingerprint: Fingerprint, state: Self::State) -> Slot;

    /// See [`SlotQuota::numbers`].
    fn numbers(&self) -> [u64; 3];

    /// See [`SlotQuota::orderless_until`].
    fn orderless_until(&self, slot: &Slot) -> Option<Micros>;

    /// The state in a slot, or that of a counter that was never used.
    fn state(&self, slot: Option<&Slot>, now: Micros) -> Self::State {
        slot.map_or_else(Self::State::default, |slot| self.read(slot, now).0)
    }
}

/// A quota by where the state of its counters is. Paths that every request takes match the
/// [`Quota`] instead, because a dynamic call takes longer there.
pub(super) enum CounterHome<'q> {
    Slot(&'q dyn SlotQuota),
    /// In the side table.
    Log(&'q SlidingLog),
    /// In the side table.
    Permits(&'q Concurrency),
}

impl<'q> CounterHome<'q> {
    pub(super) const fn new(quota: &'q Quota) -> Self {
        match quota {
            Quota::SlidingWindow(quota) => Self::Slot(quota),
            Quota::TokenBucket(quota) => Self::Slot(quota),
            Quota::LeakyBucket(quota) => Self::Slot(quota),
            Quota::FixedWindow(quota) => Self::Slot(quota),
            Quota::SlidingLog(quota) => Self::Log(quota),
            Quota::Concurrency(quota) => Self::Permits(quota),
        }
    }
}

impl<Q: SlotFormat> SlotQuota for Q {
    #[inline(always)]
    fn evaluate(
        &self,
        slot: Option<&Slot>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Micros,
    ) -> Evaluation {
        let (state, is_converted) =
            slot.map_or((Q::State::default(), false), |slot| self.read(slot, now));
        let (next, outcome) = self.spend(state, cost, now);

        Evaluation {
            outcome,
            must_store: is_converted || Self::moment(&next) < Self::moment(&state),
            next: self.write(fingerprint, next),
        }
    }

    fn evaluate_demand(&self, slot: Option<&Slot>, context: &DemandContext<'_>) -> Evaluation {
        let &DemandContext {
            fingerprint,
            cost,
            now,
            ..
        } = context;

        let evaluation = self.evaluate(slot, fingerprint, cost, now);
        if context.intent != Intent::Count || evaluation.outcome.verdict.is_allowed() {
            return evaluation;
        }
        let state = self.state(slot, now);
        let charged = self.charge(state, cost, context.limit.debt_max(context.quota), now);
        Evaluation {
            next: self.write(fingerprint, charged),
            ..evaluation
        }
    }

    fn give_back_slot(&self, slot: &Slot, units: u64, charged_in: Micros, now: Micros) -> Slot {
        let (state, _) = self.read(slot, now);
        let returned = self.give_back(state, units, charged_in, now);
        self.write(slot.fingerprint(), returned)
    }

    fn charged_in_slot(&self, slot: &Slot, now: Micros) -> Micros {
        Self::charged_in(self.read(slot, now).0)
    }

    fn refund_slot(&self, slot: &Slot, cost: u64, now: Micros) -> Slot {
        let (state, _) = self.read(slot, now);
        self.write(slot.fingerprint(), self.refund(state, cost, now))
    }

    #[inline(always)]
    fn numbers(&self) -> [u64; 3] {
        SlotFormat::numbers(self)
    }

    fn orderless_until(&self, slot: &Slot) -> Option<Micros> {
        SlotFormat::orderless_until(self, slot)
    }
}

impl SlotFormat for SlidingWindow {
    #[inline(always)]
    fn read(&self, slot: &Slot, _: Micros) -> (SlidingCounts, bool) {
        let counts = SlidingCounts {
            current: slot.first(),
            previous: slot.second(),
            start: slot.until().since(self.length).since(self.length),
        };
        (counts, false)
    }

    #[inline(always)]
    fn moment(state: &SlidingCounts) -> Micros {
        state.start
    }

    #[inline(always)]
    fn write(&self, fingerprint: Fingerprint, counts: SlidingCounts) -> Slot {
        let SlidingCounts {
            current,
            previous,
            start,
        } = counts;
        let until = start.after(self.length).after(self.length);
        let usage = QuotaUsage::from_ratio(current.max(previous), self.limit);
        Slot::new(fingerprint, current, previous, Kind::Sliding, until).with_usage(usage)
    }

    #[inline(always)]
    fn numbers(&self) -> [u64; 3] {
        [self.limit, self.length.get(), 0]
    }

    /// The end of the current window.
    fn orderless_until(&self, slot: &Slot) -> Option<Micros> {
        Some(slot.until().since(self.length).since(Micros::new(1)))
    }
}

impl SlotFormat for FixedWindow {
    #[inline(always)]
    fn read(&self, slot: &Slot, _: Micros) -> (WindowCount, bool) {
        let window = WindowCount {
            count: slot.first(),
            ends: slot.until(),
        };
        (window, false)
    }

    #[inline(always)]
    fn moment(state: &WindowCount) -> Micros {
        state.ends
    }

    #[inline(always)]
    fn write(&self, fingerprint: Fingerprint, window: WindowCount) -> Slot {
        let WindowCount { count, ends } = window;
        Slot::new(fingerprint, count, self.limit, Kind::Fixed, ends)
    }

    #[inline(always)]
    fn numbers(&self) -> [u64; 3] {
        [self.limit, self.start.length_max().get(), 0]
    }

    /// The end of the window.
    fn orderless_until(&self, slot: &Slot) -> Option<Micros> {
        Some(slot.until().since(Micros::new(1)))
    }
}

/// A quota that is a bucket.
trait BucketQuota: FixedStateAlgorithm<State = BucketState> {
    fn gcra(&self) -> &Gcra;

    /// Whether the order of spends matters even before the bucket is idle.
    fn is_ordered(&self) -> bool;
}

impl BucketQuota for TokenBucket {
    #[inline(always)]
    fn gcra(&self) -> &Gcra {
        &self.gcra
    }

    fn is_ordered(&self) -> bool {
        false
    }
}

impl BucketQuota for LeakyBucket {
    #[inline(always)]
    fn gcra(&self) -> &Gcra {
        &self.gcra
    }

    /// The order in a queue determines how long each request waits.
    fn is_ordered(&self) -> bool {
        self.mode == LeakyMode::Queue
    }
}

impl<Q: BucketQuota> SlotFormat for Q {
    #[inline(always)]
    fn read(&self, slot: &Slot, now: Micros) -> (BucketState, bool) {
        read_bucket(self.gcra(), slot, now)
    }

    #[inline(always)]
    fn moment(state: &BucketState) -> Micros {
        state.at
    }

    #[inline(always)]
    fn write(&self, fingerprint: Fingerprint, state: BucketState) -> Slot {
        bucket_slot(self.gcra(), fingerprint, state)
    }

    #[inline(always)]
    fn numbers(&self) -> [u64; 3] {
        let (units, micros) = self.gcra().rate();
        [self.gcra().capacity, units, micros]
    }

    /// The moment at which the bucket is idle: until then, a spend takes the same time to refill
    /// whenever it happens.
    fn orderless_until(&self, slot: &Slot) -> Option<Micros> {
        (!self.is_ordered()).then(|| slot.until())
    }
}

/// The state of a bucket in a slot, and whether it was converted from other parameters.
#[inline(always)]
pub(super) fn read_bucket(gcra: &Gcra, slot: &Slot, now: Micros) -> (BucketState, bool) {
    let stored = BucketState {
        at: slot.until(),
        part: slot.first(),
        is_in_debt: matches!(slot.kind(), Kind::IndebtedBucket),
    };
    let span = Micros::new(slot.second());
    let converted = if span == gcra.span {
        None
    } else {
        gcra.convert(stored, span, now)
    };
    (converted.unwrap_or(stored), converted.is_some())
}

/// The slot of a bucket. It contains the span with which the bucket is used, so that a change of
/// its parameters is noticed.
#[inline(always)]
pub(super) const fn bucket_slot(gcra: &Gcra, fingerprint: Fingerprint, state: BucketState) -> Slot {
    let span = gcra.span.get();
    let kind = if state.is_in_debt {
        Kind::IndebtedBucket
    } else {
        Kind::Bucket
    };
    Slot::new(fingerprint, state.part, span, kind, state.at)
}
