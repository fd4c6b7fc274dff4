//! Who is refused most: a short list of keys, kept only while someone looks at it.
//!
//! Owns a bounded summary of a stream of refusals that may have any number of keys ("space-saving": a full table gives the
//! place of its least key to a newcomer, which takes over its count, so that whoever is refused often is never missed). Knows
//! no names: a limit is a number, and what a key may show is decided where it is shown.
//!
//! While nobody looks, a decision pays one load of a flag for it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ahash::RandomState;
use parking_lot::Mutex;
use tollgate::EncodedKey;

/// Parts of the table, each with a lock of its own; a key is always in the same one.
const SHARDS: usize = 8;
/// The most keys of each. A key with more than one in so many of the refusals of its part is in it for certain.
const KEYS_MAX: usize = 64;

/// The keys that were refused most of late.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    is_watched: AtomicBool,
    hashes: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

/// A key that was refused often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedKey {
    /// Of the limit that refused it.
    pub(crate) limit: u32,
    pub(crate) key: EncodedKey,
    /// How often, at most.
    pub(crate) count: u64,
    /// By how much that may be too high: what was counted for others in its place.
    pub(crate) error: u64,
}

/// The span under way and the one before it, so that what is told is of late and yet never of a mere moment.
#[derive(Debug, Default)]
struct Shard {
    current: Table,
    before: Table,
}

#[derive(Debug, Default)]
struct Table(Vec<Entry>);

#[derive(Clone, Debug)]
struct Entry {
    hash: u64,
    found: RefusedKey,
}

impl Refused {
    /// Whether refusals are noted. The one question that every decision asks.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Relaxed)
    }

    /// Begins, or ends, and forgets what was noted when it ends.
    pub(crate) fn watch(&self, is_watched: bool) {
        if self.is_watched.swap(is_watched, Relaxed) && !is_watched {
            self.forget();
        }
    }

    /// Forgets everything.
    pub(crate) fn forget(&self) {
        for shard in &self.shards {
            *shard.lock() = Shard::default();
        }
    }

    /// A limit refused a key.
    pub(crate) fn note(&self, limit: u32, key: &EncodedKey) {
        let hash = self.hashes.hash_one((limit, key.as_bytes()));
        // The upper bits, because the lower ones are compared.
        let shard = usize::try_from(hash >> 32).unwrap_or(0) % SHARDS;
        self.shards[shard].lock().current.add(hash, limit, key);
    }

    /// Begins a new span. What was noted in the one before the last is forgotten.
    pub(crate) fn turn(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.before = std::mem::take(&mut shard.current);
        }
    }

    /// The keys refused most in this span and the last, the first most often.
    pub(crate) fn most(&self, most: usize) -> Vec<RefusedKey> {
        let mut all: Vec<RefusedKey> = self.shards.iter().flat_map(|shard| shard.lock().together()).collect();
        // Counts for certain come before those that may be others'.
        all.sort_by_key(|key| std::cmp::Reverse((key.count - key.error, key.count)));
        all.truncate(most);
        all
    }
}

impl Shard {
    fn together(&self) -> Vec<RefusedKey> {
        let mut sum = self.current.0.clone();
        for old in &self.before.0 {
            match sum.iter_mut().find(|entry| entry.is(old.hash, old.found.limit, &old.found.key)) {
                Some(entry) => {
                    entry.found.count += old.found.count;
                    entry.found.error += old.found.error;
                }
                None => sum.push(old.clone()),
            }
        }
        sum.into_iter().map(|entry| entry.found).collect()
    }
}

impl Table {
    fn add(&mut self, hash: u64, limit: u32, key: &EncodedKey) {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.is(hash, limit, key)) {
            entry.found.count += 1;
            return;
        }
        let new = |count, error| Entry { hash, found: RefusedKey { limit, key: key.clone(), count, error } };
        if self.0.len() < KEYS_MAX {
            self.0.push(new(1, 0));
        } else if let Some(least) = self.0.iter_mut().min_by_key(|entry| entry.found.count) {
            *least = new(least.found.count + 1, least.found.count);
        }
    }
}

impl Entry {
    fn is(&self, hash: u64, limit: u32, key: &EncodedKey) -> bool {
        self.hash == hash && self.found.limit == limit && self.found.key == *key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> EncodedKey {
        EncodedKey::of(name).expect("a key")
    }

    #[test]
    fn nothing_is_kept_once_nobody_looks() {
        let refused = Refused::default();
        assert!(!refused.is_watched());
        refused.watch(true);
        refused.note(1, &key("a"));
        refused.watch(true);
        assert_eq!(refused.most(9).len(), 1, "a second one who looks takes nothing away");
        refused.watch(false);
        assert!(!refused.is_watched() && refused.most(9).is_empty());
    }

    #[test]
    fn the_same_key_of_two_limits_is_two() {
        let refused = Refused::default();
        (0..3).for_each(|_| refused.note(1, &key("a")));
        refused.note(2, &key("a"));
        let found: Vec<_> = refused.most(9).iter().map(|key| (key.limit, key.count, key.error)).collect();
        assert_eq!(found, [(1, 3, 0), (2, 1, 0)]);
        assert_eq!(refused.most(1).len(), 1);
    }

    #[test]
    fn whoever_is_refused_often_is_found_among_any_number_of_others() {
        let refused = Refused::default();
        for round in 0..100_000_u64 {
            refused.note(1, &EncodedKey::of(&round).expect("a key"));
            if round % 20 == 0 {
                refused.note(1, &key("often"));
            }
        }
        let most = refused.most(1_000_000);
        assert!(most.len() <= SHARDS * KEYS_MAX, "{}", most.len());
        let often = most.iter().find(|found| found.key == key("often")).expect("it is there");
        assert!(often.count >= 5_000 && often.count - often.error <= 5_000, "{often:?}");
        assert_eq!(most[0].key, key("often"));
    }

    #[test]
    fn what_is_told_is_of_late() {
        let refused = Refused::default();
        refused.note(1, &key("a"));
        refused.turn();
        refused.note(1, &key("a"));
        refused.note(1, &key("b"));
        assert_eq!(refused.most(9).iter().map(|found| found.count).collect::<Vec<_>>(), [2, 1]);
        refused.turn();
        assert_eq!(refused.most(9).iter().map(|found| found.count).collect::<Vec<_>>(), [1, 1]);
        refused.turn();
        assert_eq!(refused.most(9), []);
    }
}
