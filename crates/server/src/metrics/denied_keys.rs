//! Who is refused most: a short list of keys, kept only while someone looks at it.
//!
//! Owns a bounded summary of a stream of refusals that may have any number of keys ("space-saving":
//! a full table gives the place of its least key to a newcomer, which takes over its count, so that
//! whoever is refused often is never missed). Knows no names: a limit is a number, and what a key
//! may show is decided where it is shown.
//!
//! While nobody looks, a decision pays one load of a flag for it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ahash::RandomState;
use parking_lot::Mutex;
use tollgate::EncodedKey;

/// Parts of the table, each with a lock of its own; a key is always in the same one.
const SHARDS: usize = 8;
/// The most keys of each. A key with more than one in so many of the refusals of its part is in it
/// for certain.
const KEYS_MAX: usize = 64;

/// The keys that were refused most of late.
#[derive(Debug, Default)]
pub(crate) struct DeniedKeys {
    is_watched: AtomicBool,
    hashes: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

/// A key that was refused often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeniedKey {
    /// Of the limit that refused it.
    pub(crate) limit: u32,
    pub(crate) key: EncodedKey,
    /// How often, at most.
    pub(crate) count: u64,
    /// By how much that may be too high: what was counted for others in its place.
    pub(crate) error: u64,
}

/// The span under way and the one before it, so that what is told is of late and yet never of a
/// mere moment.
#[derive(Debug, Default)]
struct Shard {
    current: Table,
    before: Table,
}

/// Side by side, so that looking for a key, and for the least one, goes through a few lines of
/// memory.
#[derive(Debug, Default)]
struct Table {
    hashes: Vec<u64>,
    counts: Vec<u64>,
    kept: Vec<Kept>,
    /// No count is less than this, and none before this place is as little.
    least: u64,
    least_from: usize,
}

#[derive(Clone, Debug)]
struct Kept {
    limit: u32,
    key: EncodedKey,
    error: u64,
}

impl DeniedKeys {
    /// Whether refusals are noted. The one question that every decision asks.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Relaxed)
    }

    /// Begins, or ends, and forgets what was noted when it ends.
    pub(crate) fn watch(&self, is_watched: bool) {
        if self.is_watched.swap(is_watched, Relaxed) && !is_watched {
            self.clear();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            *shard.lock() = Shard::default();
        }
    }

    /// A limit refused a key.
    pub(crate) fn record(&self, limit: u32, key: &EncodedKey) {
        let hash = self.hashes.hash_one((limit, key.as_bytes()));
        // The upper bits, because the lower ones are compared.
        let shard = usize::try_from(hash >> 32).unwrap_or(0) % SHARDS;
        self.shards[shard].lock().current.add(hash, limit, key);
    }

    /// Begins a new span. What was noted in the one before the last is forgotten.
    pub(crate) fn rotate(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.before = std::mem::take(&mut shard.current);
        }
    }

    /// The keys refused most in this span and the last, the first most often.
    pub(crate) fn top(&self, most: usize) -> Vec<DeniedKey> {
        let mut all: Vec<DeniedKey> = self
            .shards
            .iter()
            .flat_map(|shard| shard.lock().together())
            .collect();
        // Counts for certain come before those that may be others'.
        all.sort_by_key(|key| std::cmp::Reverse((key.count - key.error, key.count)));
        all.truncate(most);
        all
    }
}

impl Shard {
    fn together(&self) -> Vec<DeniedKey> {
        let mut sum: Vec<(u64, DeniedKey)> = self.current.all().collect();
        for (hash, old) in self.before.all() {
            let is_same =
                |(other, found): &&mut (u64, DeniedKey)| *other == hash && found.key == old.key;
            match sum.iter_mut().find(is_same) {
                Some((_, found)) => {
                    found.count += old.count;
                    found.error += old.error;
                }
                None => sum.push((hash, old)),
            }
        }
        sum.into_iter().map(|(_, found)| found).collect()
    }
}

impl Table {
    fn add(&mut self, hash: u64, limit: u32, key: &EncodedKey) {
        let is_it =
            |place: &usize| self.kept[*place].limit == limit && self.kept[*place].key == *key;
        if let Some(place) = self
            .hashes
            .iter()
            .position(|other| *other == hash)
            .filter(is_it)
        {
            self.counts[place] += 1;
        } else if self.kept.len() < KEYS_MAX {
            self.hashes.push(hash);
            self.counts.push(1);
            self.kept.push(Kept {
                limit,
                key: key.clone(),
                error: 0,
            });
        } else {
            let place = self.find_least();
            self.hashes[place] = hash;
            self.counts[place] += 1;
            self.kept[place] = Kept {
                limit,
                key: key.clone(),
                error: self.least,
            };
        }
    }

    /// Where the least count is, in a full table. Counts only grow, so the search goes on where it
    /// ended, and begins anew when no count as little is left.
    fn find_least(&mut self) -> usize {
        let goes_on = self.counts[self.least_from..]
            .iter()
            .position(|count| *count == self.least);
        let place = if let Some(further) = goes_on {
            self.least_from + further
        } else {
            self.least = self.counts.iter().copied().min().unwrap_or(0);
            self.counts
                .iter()
                .position(|count| *count == self.least)
                .unwrap_or(0)
        };
        self.least_from = place;
        place
    }

    fn all(&self) -> impl Iterator<Item = (u64, DeniedKey)> {
        let counted = self.hashes.iter().zip(&self.counts).zip(&self.kept);
        counted.map(|((hash, count), Kept { limit, key, error })| {
            (
                *hash,
                DeniedKey {
                    limit: *limit,
                    key: key.clone(),
                    count: *count,
                    error: *error,
                },
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> EncodedKey {
        EncodedKey::new(name).expect("a key")
    }

    #[test]
    fn nothing_is_kept_once_nobody_looks() {
        let refused = DeniedKeys::default();
        assert!(!refused.is_watched());
        refused.watch(true);
        refused.record(1, &key("a"));
        refused.watch(true);
        assert_eq!(
            refused.top(9).len(),
            1,
            "a second one who looks takes nothing away"
        );
        refused.watch(false);
        assert!(!refused.is_watched() && refused.top(9).is_empty());
    }

    #[test]
    fn the_same_key_of_two_limits_is_two() {
        let refused = DeniedKeys::default();
        (0..3).for_each(|_| refused.record(1, &key("a")));
        refused.record(2, &key("a"));
        let found: Vec<_> = refused
            .top(9)
            .iter()
            .map(|key| (key.limit, key.count, key.error))
            .collect();
        assert_eq!(found, [(1, 3, 0), (2, 1, 0)]);
        assert_eq!(refused.top(1).len(), 1);
    }

    #[test]
    fn whoever_is_refused_often_is_found_among_any_number_of_others() {
        let refused = DeniedKeys::default();
        for round in 0..100_000_u64 {
            refused.record(1, &EncodedKey::new(&round).expect("a key"));
            if round % 20 == 0 {
                refused.record(1, &key("often"));
            }
        }
        let most = refused.top(1_000_000);
        assert!(most.len() <= SHARDS * KEYS_MAX, "{}", most.len());
        let often = most
            .iter()
            .find(|found| found.key == key("often"))
            .expect("it is there");
        assert!(
            often.count >= 5_000 && often.count - often.error <= 5_000,
            "{often:?}"
        );
        assert_eq!(most[0].key, key("often"));
    }

    #[test]
    fn what_is_told_is_of_late() {
        let refused = DeniedKeys::default();
        refused.record(1, &key("a"));
        refused.rotate();
        refused.record(1, &key("a"));
        refused.record(1, &key("b"));
        assert_eq!(
            refused
                .top(9)
                .iter()
                .map(|found| found.count)
                .collect::<Vec<_>>(),
            [2, 1]
        );
        refused.rotate();
        assert_eq!(
            refused
                .top(9)
                .iter()
                .map(|found| found.count)
                .collect::<Vec<_>>(),
            [1, 1]
        );
        refused.rotate();
        assert_eq!(refused.top(9), []);
    }
}
