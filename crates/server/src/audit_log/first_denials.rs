//! Which keys had a line already.

use std::collections::HashMap;
use std::time::Duration;

use ahash::RandomState;
use parking_lot::Mutex;
use tollgate::Micros;
use tollgate_gate::Denial;

/// The most keys that are remembered. Beyond that some keys get a further line too early.
const KEYS_MAX: usize = 1 << 16;

/// When each key last had a line, by a hash of its limit and its bytes.
#[derive(Debug, Default)]
pub(super) struct FirstDenials {
    hashes: RandomState,
    keys: Mutex<HashMap<u64, Micros, RandomState>>,
}

impl FirstDenials {
    /// The hash of the limit and the key of a denial.
    pub(super) fn hash(&self, denial: &Denial<'_>) -> u64 {
        let name = denial.demand.limit.name().as_str();
        self.hashes.hash_one((name, denial.demand.key.as_bytes()))
    }

    /// Whether the key had no line in the period that ends now.
    pub(super) fn is_first(&self, key: u64, per: Duration, now: Micros) -> bool {
        let keys = self.keys.lock();
        let last = keys.get(&key).copied();
        // A clock that was set back must not silence a key.
        last.is_none_or(|last| last > now || Duration::from(now.since(last)) >= per)
    }

    /// Remembers that the key had a line.
    pub(super) fn insert(&self, key: u64, now: Micros) {
        let mut keys = self.keys.lock();
        if keys.len() >= KEYS_MAX && !keys.contains_key(&key) {
            forget_older_half(&mut keys);
        }
        keys.insert(key, now);
    }
}

/// Forgets the keys whose lines are oldest.
#[cold]
fn forget_older_half(keys: &mut HashMap<u64, Micros, RandomState>) {
    let mut times: Vec<Micros> = keys.values().copied().collect();
    let middle = times.len() / 2;
    let (_, &mut median, _) = times.select_nth_unstable(middle);
    keys.retain(|_, last| *last > median);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PER: Duration = Duration::from_secs(10);

    #[test]
    fn a_key_is_first_again_after_the_period() {
        let first = FirstDenials::default();
        let at = Micros::from_secs;
        assert!(first.is_first(1, PER, at(100)));
        first.insert(1, at(100));
        assert!(!first.is_first(1, PER, at(100)) && !first.is_first(1, PER, at(109)));
        assert!(first.is_first(1, PER, at(110)) && first.is_first(2, PER, at(100)));
        assert!(first.is_first(1, PER, at(50)), "the clock was set back");
    }

    #[test]
    fn the_number_of_keys_is_bounded_and_recent_ones_stay() {
        let first = FirstDenials::default();
        for key in 0..200_000_u64 {
            first.insert(key, Micros::from_millis(key));
            assert!(first.keys.lock().len() <= KEYS_MAX);
        }
        assert!(!first.is_first(199_999, PER, Micros::from_millis(200_000)));
    }
}
