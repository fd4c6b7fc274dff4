//! The protocol of the sequence word, in every interleaving and with every reordering that the
//! memory model allows.

use loom::sync::Arc;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

/// The atomics of the model.
mod atomics {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};

    pub(super) fn pause(_attempt: u32) {
        loom::thread::yield_now();
    }
}

/// The sequence word of the store, compiled with the atomics of the model.
#[expect(clippy::duplicate_mod, reason = "compiled with other atomics")]
#[path = "../sequence.rs"]
mod sequence;

use atomics::AtomicU64;
use sequence::Sequence;

/// A shard with one counter, in two words that are always equal. A counter of `FULL` units denies.
struct Shard {
    sequence: Sequence,
    words: [AtomicU64; 2],
}

const FULL: u64 = 2;

impl Shard {
    fn new() -> Self {
        Self {
            sequence: Sequence::new(),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    fn read(&self) -> [u64; 2] {
        [self.words[0].load(Relaxed), self.words[1].load(Relaxed)]
    }

    fn write(&self, count: u64) {
        self.words[0].store(count, Relaxed);
        self.words[1].store(count, Relaxed);
    }

    /// Spends a unit like a demand without the lock. `None` if other threads were faster.
    fn try_spend(&self) -> Option<bool> {
        let version = self.sequence.begin()?;
        let words = self.read();
        if words[0] >= FULL || words[1] >= FULL {
            let is_denied = self.sequence.is_unchanged(version);
            assert!(
                !is_denied || words == [FULL; 2],
                "a denial from parts of two states"
            );
            return is_denied.then_some(false);
        }

        let hold = self.sequence.try_hold(version)?;
        assert_eq!(words[0], words[1], "a charge from parts of two states");
        self.write(words[0] + 1);
        drop(hold);
        Some(true)
    }

    /// Spends a unit like a demand under the lock.
    fn spend_held(&self) -> bool {
        let _hold = self.sequence.hold();
        let words = self.read();
        assert_eq!(
            words[0], words[1],
            "a shard was held while another thread wrote"
        );
        if words[0] < FULL {
            self.write(words[0] + 1);
        }
        words[0] < FULL
    }

    fn count(&self) -> u64 {
        let words = self.read();
        assert_eq!(words[0], words[1]);
        words[0]
    }
}

#[test]
fn threads_that_spend_without_the_lock_lose_no_update_and_admit_no_unit_twice() {
    loom::model(|| {
        let shard = Arc::new(Shard::new());
        shard.write(FULL - 1);
        let spend = |shard: Arc<Shard>| move || shard.try_spend();
        let threads = [
            thread::spawn(spend(shard.clone())),
            thread::spawn(spend(shard.clone())),
        ];
        let results = threads.map(|thread| thread.join().unwrap());
        let admitted = results.iter().filter(|result| **result == Some(true));
        assert_eq!(admitted.count(), 1, "{results:?}");
        assert_eq!(shard.count(), FULL);
    });
}

#[test]
fn a_thread_under_the_lock_excludes_those_without_it() {
    loom::model(|| {
        let shard = Arc::new(Shard::new());
        shard.write(FULL - 1);
        let (unlocked, held) = (shard.clone(), shard.clone());
        let unlocked = thread::spawn(move || unlocked.try_spend());
        let held = thread::spawn(move || held.spend_held());
        let (unlocked, held) = (unlocked.join().unwrap(), held.join().unwrap());
        assert_eq!(
            held,
            unlocked != Some(true),
            "one of them has the last unit"
        );
        assert_eq!(shard.count(), FULL);
    });
}

/// A denied request over two shards holds both, charges neither, and a reader of either never sees
/// a charge of it.
#[test]
fn a_request_over_two_shards_charges_both_or_none() {
    loom::model(|| {
        let shards = Arc::new([Shard::new(), Shard::new()]);
        shards[0].write(FULL - 1);
        shards[1].write(FULL - 1);
        let both = |shards: &[Shard; 2]| {
            let _holds = shards.each_ref().map(|shard| shard.sequence.hold());
            let is_allowed = shards.iter().all(|shard| shard.count() < FULL);
            if is_allowed {
                shards.iter().for_each(|shard| shard.write(FULL));
            }
            is_allowed
        };

        let (of_both, of_one) = (shards.clone(), shards.clone());
        let of_both = thread::spawn(move || both(&of_both));
        let of_one = thread::spawn(move || of_one[1].try_spend());
        let (of_both, of_one) = (of_both.join().unwrap(), of_one.join().unwrap());

        let counts = [shards[0].count(), shards[1].count()];
        if of_both {
            assert_ne!(of_one, Some(true), "the unit was spent twice");
            assert_eq!(counts, [FULL; 2]);
        } else {
            assert_eq!(of_one, Some(true), "denied although nothing was spent");
            assert_eq!(counts, [FULL - 1, FULL]);
        }
    });
}

#[test]
fn a_denial_is_decided_from_one_version() {
    loom::model(|| {
        let shard = Arc::new(Shard::new());
        shard.write(FULL);
        let writer = shard.clone();
        // Someone returns a unit and spends it again.
        let writer = thread::spawn(move || {
            for count in [FULL - 1, FULL] {
                let _hold = writer.sequence.hold();
                writer.write(count);
            }
        });
        shard.try_spend();
        writer.join().unwrap();
    });
}
