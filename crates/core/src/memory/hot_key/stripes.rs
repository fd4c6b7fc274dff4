//! The stripes of a hot key: units that threads spend without a lock.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// The bits of a stripe that are its units; the number of the split is above them.
const UNITS_BITS: u32 = 16;
const UNITS_MAX: u64 = (1 << UNITS_BITS) - 1;

/// Units on a cache line of their own, with the number of the split that they belong to. A spend
/// compares both, so units that were taken back, or belong to a later split, are not spent.
///
/// A thread that spends units also sees what was written before they were filled in.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Stripe(AtomicU64);

impl Stripe {
    /// Spends units of a split. Returns how many are left; `None` if there are not enough.
    #[inline(always)]
    pub(super) fn spend(&self, split: u64, cost: u64) -> Option<u64> {
        let mut word = self.0.load(Relaxed);
        loop {
            let left = units_of(word, split).checked_sub(cost)?;
            let next = pack(left, split);
            match self.0.compare_exchange_weak(word, next, Acquire, Relaxed) {
                Ok(_) => return Some(left),
                Err(found) => word = found,
            }
        }
    }

    /// Takes the units of a split back.
    pub(super) fn take(&self, split: u64) -> u64 {
        units_of(self.0.swap(0, Relaxed), split)
    }

    /// Sets the units. The stripe must be empty.
    pub(super) fn fill(&self, split: u64, units: u64) {
        self.0.store(pack(units, split), Release);
    }
}

const fn pack(units: u64, split: u64) -> u64 {
    split << UNITS_BITS | units
}

/// The units of a word if it belongs to the split, else 0.
const fn units_of(word: u64, split: u64) -> u64 {
    if word & !UNITS_MAX == pack(0, split) {
        word & UNITS_MAX
    } else {
        0
    }
}

/// The stripes of a shard's hot key, allocated when a key of the shard is first split.
#[derive(Debug, Default)]
pub(super) struct Stripes(OnceLock<Box<[Stripe]>>);

impl Stripes {
    /// The stripe of this thread; `None` if no key was ever split.
    #[inline(always)]
    pub(super) fn own(&self) -> Option<&Stripe> {
        let stripes = self.0.get()?;
        stripes.get(thread_number() & (stripes.len() - 1))
    }

    /// The stripe of this thread out of `count`, a power of two.
    pub(super) fn own_of(&self, count: usize) -> &Stripe {
        let allocate = || (0..count).map(|_| Stripe::default()).collect();
        let stripes = self.0.get_or_init(allocate);
        &stripes[thread_number() & (stripes.len() - 1)]
    }

    /// Takes the units of all stripes back.
    pub(super) fn take_all(&self, split: u64) -> u64 {
        let stripes = self.0.get().into_iter().flatten();
        stripes.map(|stripe| stripe.take(split)).sum()
    }
}

thread_local! {
    /// The number of a thread. Threads are numbered in the order in which they first read it.
    static THREAD_NUMBER: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Relaxed))
    };
}

#[inline(always)]
fn thread_number() -> usize {
    THREAD_NUMBER.get()
}

/// Makes this thread act as the one with this number.
#[cfg(test)]
pub(in super::super) fn set_thread_number(number: usize) {
    THREAD_NUMBER.set(number);
}

#[cfg(test)]
mod tests {
    use std::thread::ScopedJoinHandle;

    use super::*;

    #[test]
    fn units_are_spent_once_and_only_in_their_split() {
        let stripe = Stripe::default();
        assert_eq!(stripe.spend(1, 1), None);

        stripe.fill(1, 10);
        assert_eq!(stripe.spend(2, 1), None);
        assert_eq!(stripe.spend(1, 4), Some(6));
        assert_eq!(stripe.spend(1, 7), None);
        assert_eq!(stripe.take(2), 0);

        stripe.fill(3, UNITS_MAX);
        assert_eq!(stripe.spend(3, u64::MAX), None);
        assert_eq!(stripe.spend(3, UNITS_MAX), Some(0));
        assert_eq!(stripe.take(3), 0);
    }

    #[test]
    fn what_threads_spend_and_what_is_taken_back_is_what_was_there() {
        let stripes = Stripes::default();
        let (filled, spent) = (AtomicU64::new(0), AtomicU64::new(0));
        let mut taken = 0;

        std::thread::scope(|scope| {
            let spender = || {
                for _ in 0..50_000 {
                    if stripes.own_of(2).spend(1, 3).is_some() {
                        spent.fetch_add(3, Relaxed);
                    }
                }
            };
            let spenders = [(); 2].map(|()| scope.spawn(spender));
            while !spenders.iter().all(ScopedJoinHandle::is_finished) {
                taken += stripes.take_all(1);
                stripes.own_of(2).fill(1, 1_000);
                filled.fetch_add(1_000, Relaxed);
            }
        });
        taken += stripes.take_all(1);
        assert_eq!(taken + spent.into_inner(), filled.into_inner());
    }
}
