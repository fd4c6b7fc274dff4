//! The lower bound of any limiter's work: find a counter by the key's hash, read the time, change a
//! word.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ahash::RandomState;
use tollgate::{Clock as _, SystemClock};

use super::{Setup, Subject};

/// A counter takes 32 bytes, and tables are not full.
#[repr(align(32))]
struct CounterWord(AtomicU64);

pub(super) struct AtomicCounter {
    clock: SystemClock,
    hash: RandomState,
    words: Box<[CounterWord]>,
}

impl Subject for AtomicCounter {
    const NAME: &'static str = "atomic-counter";

    fn new(setup: &Setup) -> Self {
        // As many words as Tollgate has for half of `keys_max`.
        let words = (setup.keys_max / 2).max(1) as usize * 9 / 5;
        Self {
            clock: SystemClock::new(),
            hash: RandomState::new(),
            words: (0..words.max(1))
                .map(|_| CounterWord(AtomicU64::new(0)))
                .collect(),
        }
    }

    #[inline]
    fn allow(&self, key: &String) -> bool {
        let place = (u128::from(self.hash.hash_one(key)) * self.words.len() as u128) >> 64;
        let word = &self.words[usize::try_from(place).unwrap_or_default()].0;
        // Always true, but the compiler does not know.
        word.swap(self.clock.now().get(), Relaxed) < u64::MAX
    }
}
