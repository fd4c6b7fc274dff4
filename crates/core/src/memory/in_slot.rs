//! The algorithms whose state fits into a slot: reading it, spending from it, giving back to it.

use super::fingerprint::Fingerprint;
use super::slot::Slot;
use crate::algorithm::{
    BucketState, FixedWindow, Gcra, LeakyBucket, Outcome, SlidingCounts, SlidingWindow,
    TokenBucket, WindowCount,
};
use crate::time::Micros;

/// What a check does to a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) outcome: Outcome,
    /// The counter if the check is charged.
    pub(super) next: Slot,
    /// The clock was set back, or the bucket follows other numbers now, so the counter must be kept
    /// as `next` even if nothing is charged.
    pub(super) moved: bool,
}

/// A state that fits into a slot. No slot is a counter that nobody has used.
pub(super) trait InSlot {
    fn step(&self, slot: Option<&Slot>, print: Fingerprint, cost: u64, now: Micros) -> Step;

    fn refunded(&self, slot: &Slot, cost: u64, now: Micros) -> Slot;
}

impl InSlot for SlidingWindow {
    #[inline(always)]
    fn step(&self, slot: Option<&Slot>, print: Fingerprint, cost: u64, now: Micros) -> Step {
        let counts = slot.map_or(SlidingCounts::default(), |slot| {
            slot.as_sliding(self.length)
        });
        let (next, outcome) = self.spend(counts, cost, now);
        let moved = next.start < counts.start;
        Step {
            outcome,
            next: Slot::sliding(print, next, self.length, self.limit),
            moved,
        }
    }

    fn refunded(&self, slot: &Slot, cost: u64, now: Micros) -> Slot {
        let counts = self.refund(slot.as_sliding(self.length), cost, now);
        Slot::sliding(slot.print(), counts, self.length, self.limit)
    }
}

impl InSlot for FixedWindow {
    #[inline(always)]
    fn step(&self, slot: Option<&Slot>, print: Fingerprint, cost: u64, now: Micros) -> Step {
        let used = slot.map_or(WindowCount::default(), Slot::as_fixed);
        let (next, outcome) = self.spend(used, cost, now);
        Step {
            outcome,
            next: Slot::fixed(print, next, self.limit),
            moved: next.ends < used.ends,
        }
    }

    fn refunded(&self, slot: &Slot, cost: u64, now: Micros) -> Slot {
        Slot::fixed(
            slot.print(),
            self.refund(slot.as_fixed(), cost, now),
            self.limit,
        )
    }
}

impl InSlot for TokenBucket {
    #[inline(always)]
    fn step(&self, slot: Option<&Slot>, print: Fingerprint, cost: u64, now: Micros) -> Step {
        let was = Bucket::read(&self.gcra, slot, now);
        let (next, outcome) = self.gcra.spend(was.rest, cost, now);
        was.step(&self.gcra, print, next, outcome)
    }

    fn refunded(&self, slot: &Slot, cost: u64, now: Micros) -> Slot {
        bucket_refunded(&self.gcra, slot, cost, now)
    }
}

impl InSlot for LeakyBucket {
    #[inline(always)]
    fn step(&self, slot: Option<&Slot>, print: Fingerprint, cost: u64, now: Micros) -> Step {
        let was = Bucket::read(&self.gcra, slot, now);
        let (next, outcome) = self.spend(was.rest, cost, now);
        was.step(&self.gcra, print, next, outcome)
    }

    fn refunded(&self, slot: &Slot, cost: u64, now: Micros) -> Slot {
        bucket_refunded(&self.gcra, slot, cost, now)
    }
}

/// What a slot says of a bucket.
struct Bucket {
    rest: BucketState,
    /// The moment that was kept, before it was converted.
    kept: Micros,
    /// It was last used with other numbers.
    is_converted: bool,
}

impl Bucket {
    #[inline(always)]
    fn read(gcra: &Gcra, slot: Option<&Slot>, now: Micros) -> Self {
        let rest = slot.map_or(BucketState::default(), Slot::as_bucket);
        let other = slot.map(Slot::span).filter(|span| *span != gcra.span);
        let converted = other.and_then(|span| gcra.convert(rest, span, now));
        Self {
            rest: converted.unwrap_or(rest),
            kept: rest.at,
            is_converted: converted.is_some(),
        }
    }

    #[inline(always)]
    fn step(&self, gcra: &Gcra, print: Fingerprint, next: BucketState, outcome: Outcome) -> Step {
        let moved = next.at < self.kept || self.is_converted;
        Step {
            outcome,
            next: Slot::bucket(print, next, gcra),
            moved,
        }
    }
}

fn bucket_refunded(gcra: &Gcra, slot: &Slot, cost: u64, now: Micros) -> Slot {
    let rest = slot.as_bucket();
    let rest = gcra.convert(rest, slot.span(), now).unwrap_or(rest);
    Slot::bucket(slot.print(), gcra.refund(rest, cost, now), gcra)
}
