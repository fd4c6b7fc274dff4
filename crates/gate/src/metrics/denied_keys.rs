//! The keys denied most often: a short list, recorded only while the dashboard is open.
//!
//! The stream of denials can have any number of distinct keys, so it is summarised with the
//! "space-saving" algorithm: when the table is full, a new key replaces the one with the lowest
//! count and takes over that count. A key that is denied often is therefore never missed. Limits
//! are known here by their id alone; whether a key may be displayed is decided by the caller.
//!
//! While the dashboard is closed, a decision pays for one load of a flag.

use std::cmp::Reverse;
use std::collections::HashMap;
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
pub struct DeniedKeys {
    is_watched: AtomicBool,
    hashes: RandomState,
    shards: [Mutex<DeniedKeyShard>; SHARDS],
}

/// A key that was denied often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedKey {
    /// The id of the limit that denied it.
    pub limit: u32,
    /// The key.
    pub key: EncodedKey,
    /// How often it was denied.
    pub denials: DenialCount,
}

/// How often a key was denied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DenialCount {
    /// Upper bound of the number of denials.
    pub count: u64,
    /// How much too high `count` may be: the count taken over from the key it replaced.
    pub error: u64,
}

/// The denials of one period, by limit and key.
type DenialTable = HashMap<(u32, EncodedKey), DenialCount, RandomState>;

/// The current period and the one before it. Reporting both means that the list is recent, and yet
/// not empty right after a rotation.
#[derive(Debug, Default)]
struct DeniedKeyShard {
    current: DenialTable,
    previous: DenialTable,
}

impl DeniedKeys {
    /// Whether denials are recorded. The only cost for a decision while the dashboard is closed.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Relaxed)
    }

    /// Starts or stops recording. Stopping clears the list.
    pub fn watch(&self, is_watched: bool) {
        if self.is_watched.swap(is_watched, Relaxed) && !is_watched {
            self.clear();
        }
    }

    /// Removes all keys.
    pub fn clear(&self) {
        for shard in &self.shards {
            *shard.lock() = DeniedKeyShard::default();
        }
    }

    /// Counts a denial of a key.
    pub fn record(&self, limit: u32, key: &EncodedKey) {
        let id = (limit, key.clone());
        let shard = usize::try_from(self.hashes.hash_one(&id) >> 32).unwrap_or(0) % SHARDS;
        self.shards[shard].lock().record(id);
    }

    /// Starts a new period. The list then covers the new period and the one that just ended.
    pub fn rotate(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.previous = std::mem::take(&mut shard.current);
        }
    }

    /// The keys denied most often in the current and the previous period, in descending order.
    pub fn top(&self, keys_max: usize) -> Vec<DeniedKey> {
        let mut keys: Vec<DeniedKey> = self
            .shards
            .iter()
            .flat_map(|shard| shard.lock().merged())
            .map(|((limit, key), denials)| DeniedKey {
                limit,
                key,
                denials,
            })
            .collect();

        // Order by the count that is certain, then by the upper bound.
        keys.sort_by_key(|DeniedKey { denials, .. }| {
            Reverse((denials.count - denials.error, denials.count))
        });
        keys.truncate(keys_max);
        keys
    }
}

impl DeniedKeyShard {
    fn record(&mut self, id: (u32, EncodedKey)) {
        if let Some(denials) = self.current.get_mut(&id) {
            denials.count += 1;
            return;
        }

        let mut error = 0;
        if self.current.len() >= KEYS_MAX {
            let lowest = self.current.iter().min_by_key(|(_, denials)| denials.count);
            if let Some((replaced, denials)) = lowest.map(|(id, denials)| (id.clone(), *denials)) {
                self.current.remove(&replaced);
                error = denials.count;
            }
        }
        let count = error + 1;
        self.current.insert(id, DenialCount { count, error });
    }

    /// The keys of both periods with their counts added up.
    fn merged(&self) -> DenialTable {
        let mut merged = self.current.clone();
        for (id, old) in &self.previous {
            let denials = merged.entry(id.clone()).or_default();
            denials.count += old.count;
            denials.error += old.error;
        }
        merged
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
            .map(|key| (key.limit, key.denials.count, key.denials.error))
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
            often.denials.count >= 5_000 && often.denials.count - often.denials.error <= 5_000,
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
                .map(|found| found.denials.count)
                .collect::<Vec<_>>(),
            [2, 1]
        );
        denied_keys.rotate();
        assert_eq!(
            denied_keys
                .top(9)
                .iter()
                .map(|found| found.denials.count)
                .collect::<Vec<_>>(),
            [1, 1]
        );
        denied_keys.rotate();
        assert_eq!(denied_keys.top(9), []);
    }
}
