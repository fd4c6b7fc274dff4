//! The keys denied most often: a short list, recorded only while the dashboard is open.
//!
//! The stream of denials can have any number of distinct keys, so it is summarised with the
//! "space-saving" algorithm: when the table is full, a new key replaces the one with the lowest
//! count and takes over that count. A key that is denied often is therefore never missed. Limits
//! are known here by their id alone; whether a key may be displayed is decided by the caller.
//!
//! While the dashboard is closed, a decision pays for one load of a flag.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ahash::RandomState;
use parking_lot::Mutex;
use tollgate::EncodedKey;

/// Shards of the table, each with its own lock; a key always goes to the same shard.
const SHARDS: usize = 8;
/// The most keys in a shard. A key with more than 1/64 of its shard's denials is certain to be in
/// the table.
const KEYS_MAX: usize = 64;

/// The keys denied most often of late.
#[derive(Debug, Default)]
pub(crate) struct DeniedKeys {
    is_watched: AtomicBool,
    hashes: RandomState,
    shards: [Mutex<DeniedKeyShard>; SHARDS],
}

/// A key that was denied often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeniedKey {
    /// The id of the limit that denied it.
    pub(crate) limit: u32,
    pub(crate) key: EncodedKey,
    /// Upper bound of the number of denials.
    pub(crate) count: u64,
    /// How much too high `count` may be: the count taken over from the key it replaced.
    pub(crate) error: u64,
}

/// The current period and the one before it. Reporting both means that the list is recent, and yet
/// not empty right after a rotation.
#[derive(Debug, Default)]
struct DeniedKeyShard {
    current: DeniedKeyTable,
    previous: DeniedKeyTable,
}

/// The counters of one period. Parallel vectors, so that searching for a key or for the lowest
/// count reads few cache lines.
#[derive(Debug, Default)]
struct DeniedKeyTable {
    hashes: Vec<u64>,
    counts: Vec<u64>,
    entries: Vec<DeniedKeyEntry>,
    /// Lower bound of all counts.
    lowest: u64,
    /// No entry before this index has a count as low as `lowest`.
    lowest_from: usize,
}

#[derive(Clone, Debug)]
struct DeniedKeyEntry {
    limit: u32,
    key: EncodedKey,
    error: u64,
}

impl DeniedKeys {
    /// Whether denials are recorded. The only cost for a decision while the dashboard is closed.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Relaxed)
    }

    /// Starts or stops recording. Stopping clears the list.
    pub(crate) fn watch(&self, is_watched: bool) {
        if self.is_watched.swap(is_watched, Relaxed) && !is_watched {
            self.clear();
        }
    }

    /// Removes all keys.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            *shard.lock() = DeniedKeyShard::default();
        }
    }

    /// Counts a denial of a key.
    pub(crate) fn record(&self, limit: u32, key: &EncodedKey) {
        let hash = self.hashes.hash_one((limit, key.as_bytes()));
        // Select the shard by the upper bits: the table compares whole hashes, and keys of one
        // shard should differ in their lower bits.
        let shard = usize::try_from(hash >> 32).unwrap_or(0) % SHARDS;
        self.shards[shard].lock().current.add(hash, limit, key);
    }

    /// Starts a new period. The list then covers the new period and the one that just ended.
    pub(crate) fn rotate(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.previous = std::mem::take(&mut shard.current);
        }
    }

    /// The keys denied most often in the current and the previous period, in descending order.
    pub(crate) fn top(&self, keys_max: usize) -> Vec<DeniedKey> {
        let mut keys: Vec<DeniedKey> = self
            .shards
            .iter()
            .flat_map(|shard| shard.lock().merged())
            .collect();

        // Order by the count that is certain, then by the upper bound.
        keys.sort_by_key(|key| std::cmp::Reverse((key.count - key.error, key.count)));
        keys.truncate(keys_max);
        keys
    }
}

impl DeniedKeyShard {
    /// The keys of both periods with their counts added up.
    fn merged(&self) -> Vec<DeniedKey> {
        let mut merged: Vec<(u64, DeniedKey)> = self.current.keys().collect();

        for (hash, old) in self.previous.keys() {
            let is_same =
                |(other, key): &&mut (u64, DeniedKey)| *other == hash && key.key == old.key;
            match merged.iter_mut().find(is_same) {
                Some((_, key)) => {
                    key.count += old.count;
                    key.error += old.error;
                }
                None => merged.push((hash, old)),
            }
        }

        merged.into_iter().map(|(_, key)| key).collect()
    }
}

impl DeniedKeyTable {
    fn add(&mut self, hash: u64, limit: u32, key: &EncodedKey) {
        let is_same =
            |index: &usize| self.entries[*index].limit == limit && self.entries[*index].key == *key;
        let known = self
            .hashes
            .iter()
            .position(|other| *other == hash)
            .filter(is_same);

        if let Some(index) = known {
            self.counts[index] += 1;
        } else if self.entries.len() < KEYS_MAX {
            self.hashes.push(hash);
            self.counts.push(1);
            self.entries.push(DeniedKeyEntry {
                limit,
                key: key.clone(),
                error: 0,
            });
        } else {
            let index = self.find_lowest();
            self.hashes[index] = hash;
            self.counts[index] += 1;
            self.entries[index] = DeniedKeyEntry {
                limit,
                key: key.clone(),
                error: self.lowest,
            };
        }
    }

    /// The index of the lowest count in a full table. Counts only grow, so the search continues
    /// where the last one ended, and restarts when no count as low is left.
    fn find_lowest(&mut self) -> usize {
        let next = self.counts[self.lowest_from..]
            .iter()
            .position(|count| *count == self.lowest);

        let index = if let Some(offset) = next {
            self.lowest_from + offset
        } else {
            self.lowest = self.counts.iter().copied().min().unwrap_or(0);
            self.counts
                .iter()
                .position(|count| *count == self.lowest)
                .unwrap_or(0)
        };

        self.lowest_from = index;
        index
    }

    fn keys(&self) -> impl Iterator<Item = (u64, DeniedKey)> {
        let rows = self.hashes.iter().zip(&self.counts).zip(&self.entries);
        rows.map(|((hash, count), entry)| {
            let key = DeniedKey {
                limit: entry.limit,
                key: entry.key.clone(),
                count: *count,
                error: entry.error,
            };
            (*hash, key)
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
    fn closing_the_dashboard_clears_the_list() {
        let denied_keys = DeniedKeys::default();
        assert!(!denied_keys.is_watched());
        denied_keys.watch(true);
        denied_keys.record(1, &key("a"));
        denied_keys.watch(true);
        assert_eq!(
            denied_keys.top(9).len(),
            1,
            "a second viewer does not clear the list"
        );
        denied_keys.watch(false);
        assert!(!denied_keys.is_watched() && denied_keys.top(9).is_empty());
    }

    #[test]
    fn the_same_key_of_two_limits_is_listed_twice() {
        let denied_keys = DeniedKeys::default();
        (0..3).for_each(|_| denied_keys.record(1, &key("a")));
        denied_keys.record(2, &key("a"));
        let found: Vec<_> = denied_keys
            .top(9)
            .iter()
            .map(|key| (key.limit, key.count, key.error))
            .collect();
        assert_eq!(found, [(1, 3, 0), (2, 1, 0)]);
        assert_eq!(denied_keys.top(1).len(), 1);
    }

    #[test]
    fn a_key_denied_often_is_found_among_any_number_of_others() {
        let denied_keys = DeniedKeys::default();
        for round in 0..100_000_u64 {
            denied_keys.record(1, &EncodedKey::new(&round).expect("a key"));
            if round % 20 == 0 {
                denied_keys.record(1, &key("often"));
            }
        }
        let most = denied_keys.top(1_000_000);
        assert!(most.len() <= SHARDS * KEYS_MAX, "{}", most.len());
        let often = most
            .iter()
            .find(|found| found.key == key("often"))
            .expect("the key is listed");
        assert!(
            often.count >= 5_000 && often.count - often.error <= 5_000,
            "{often:?}"
        );
        assert_eq!(most[0].key, key("often"));
    }

    #[test]
    fn only_two_periods_are_listed() {
        let denied_keys = DeniedKeys::default();
        denied_keys.record(1, &key("a"));
        denied_keys.rotate();
        denied_keys.record(1, &key("a"));
        denied_keys.record(1, &key("b"));
        assert_eq!(
            denied_keys
                .top(9)
                .iter()
                .map(|found| found.count)
                .collect::<Vec<_>>(),
            [2, 1]
        );
        denied_keys.rotate();
        assert_eq!(
            denied_keys
                .top(9)
                .iter()
                .map(|found| found.count)
                .collect::<Vec<_>>(),
            [1, 1]
        );
        denied_keys.rotate();
        assert_eq!(denied_keys.top(9), []);
    }
}
