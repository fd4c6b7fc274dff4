//! The quotas whose state fits into a slot: how they read it, spend from it and refund to it.

use super::fingerprint::Fingerprint;
use super::slot::Slot;
use crate::algorithm::{
    BucketState, FixedWindow, Gcra, LeakyBucket, Outcome, SlidingCounts, SlidingWindow,
    TokenBucket, WindowCount,
};
use crate::time::Micros;

/// The effect of a demand on a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotUpdate {
    pub(super) outcome: Outcome,
    /// The counter if the demand is charged.
    pub(super) next: Slot,
    /// True when `next` must be stored even if nothing is charged: the clock was set back, or the
    /// parameters of the bucket have changed.
    pub(super) must_store: bool,
}

/// A quota whose state fits into a slot. A counter that was never used has no slot.
pub(super) trait SlotQuota {
    /// Evaluates a demand of `cost` without changing the slot.
    fn evaluate_slot(
        &self,
        slot: Option<&Slot>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Micros,
    ) -> SlotUpdate;

    /// The slot with `cost` units refunded.
    fn refund_slot(&self, slot: &Slot, cost: u64, now: Micros) -> Slot;
}

impl SlotQuota for SlidingWindow {
    #[inline(always)]
    fn evaluate_slot(
        &self,
        slot: Option<&Slot>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Micros,
    ) -> SlotUpdate {
        let counts = slot.map_or(SlidingCounts::default(), |slot| {
            slot.as_sliding(self.length)
        });
        let (next, outcome) = self.spend(counts, cost, now);

        SlotUpdate {
            outcome,
            next: Slot::sliding(fingerprint, next, self.length, self.limit),
            must_store: next.start < counts.start,
        }
    }

    fn refund_slot(&self, slot: &Slot, cost: u64, now: Micros) -> Slot {
        let counts = self.refund(slot.as_sliding(self.length), cost, now);
        Slot::sliding(slot.fingerprint(), counts, self.length, self.limit)
    }
}

impl SlotQuota for FixedWindow {
    #[inline(always)]
    fn evaluate_slot(
        &self,
        slot: Option<&Slot>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Micros,
    ) -> SlotUpdate {
        let count = slot.map_or(WindowCount::default(), Slot::as_fixed);
        let (next, outcome) = self.spend(count, cost, now);

        SlotUpdate {
            outcome,
            next: Slot::fixed(fingerprint, next, self.limit),
            must_store: next.ends < count.ends,
        }
    }

    fn refund_slot(&self, slot: &Slot, cost: u64, now: Micros) -> Slot {
        let count = self.refund(slot.as_fixed(), cost, now);
        Slot::fixed(slot.fingerprint(), count, self.limit)
    }
}

impl SlotQuota for TokenBucket {
    #[inline(always)]
    fn evaluate_slot(
        &self,
        slot: Option<&Slot>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Micros,
    ) -> SlotUpdate {
        let bucket = BucketSlot::read(&self.gcra, slot, now);
        let (next, outcome) = self.gcra.spend(bucket.state, cost, now);
        bucket.update(&self.gcra, fingerprint, next, outcome)
    }

    fn refund_slot(&self, slot: &Slot, cost: u64, now: Micros) -> Slot {
        refund_bucket(&self.gcra, slot, cost, now)
    }
}

impl SlotQuota for LeakyBucket {
    #[inline(always)]
    fn evaluate_slot(
        &self,
        slot: Option<&Slot>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Micros,
    ) -> SlotUpdate {
        let bucket = BucketSlot::read(&self.gcra, slot, now);
        let (next, outcome) = self.spend(bucket.state, cost, now);
        bucket.update(&self.gcra, fingerprint, next, outcome)
    }

    fn refund_slot(&self, slot: &Slot, cost: u64, now: Micros) -> Slot {
        refund_bucket(&self.gcra, slot, cost, now)
    }
}

/// The state of a bucket as read from a slot.
struct BucketSlot {
    state: BucketState,
    /// The moment in the slot, before it was converted.
    stored_at: Micros,
    /// True when the bucket was last used with other parameters.
    is_converted: bool,
}

impl BucketSlot {
    #[inline(always)]
    fn read(gcra: &Gcra, slot: Option<&Slot>, now: Micros) -> Self {
        let stored = slot.map_or(BucketState::default(), Slot::as_bucket);
        let other_span = slot.map(Slot::span).filter(|span| *span != gcra.span);
        let converted = other_span.and_then(|span| gcra.convert(stored, span, now));
        Self {
            state: converted.unwrap_or(stored),
            stored_at: stored.at,
            is_converted: converted.is_some(),
        }
    }

    #[inline(always)]
    fn update(
        &self,
        gcra: &Gcra,
        fingerprint: Fingerprint,
        next: BucketState,
        outcome: Outcome,
    ) -> SlotUpdate {
        SlotUpdate {
            outcome,
            next: Slot::bucket(fingerprint, next, gcra),
            must_store: next.at < self.stored_at || self.is_converted,
        }
    }
}

fn refund_bucket(gcra: &Gcra, slot: &Slot, cost: u64, now: Micros) -> Slot {
    let stored = slot.as_bucket();
    let state = gcra.convert(stored, slot.span(), now).unwrap_or(stored);
    Slot::bucket(slot.fingerprint(), gcra.refund(state, cost, now), gcra)
}
