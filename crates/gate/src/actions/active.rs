//! The actions in force, as decisions find them.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use ahash::RandomState;
use arc_swap::ArcSwap;
use tollgate::{Demand, EncodedKey};

use super::table::ActionTable;

/// The table in force. Decisions read it, the log of actions replaces it.
#[derive(Debug, Default)]
pub(crate) struct ActiveActions {
    /// All that a decision reads when there are no actions.
    reach: AtomicU8,
    filter: KeyFilter,
    table: ArcSwap<ActionTable>,
}

/// What the actions in force may concern.
const NOTHING: u8 = 0;
/// Keys that the filter knows.
const KEYS: u8 = 1;
/// Any key: a limit is switched, or a network is blocked.
const ANYTHING: u8 = 2;

impl ActiveActions {
    /// Replaces the table.
    pub(crate) fn replace(&self, table: ActionTable) {
        let table = Arc::new(table);
        let keys = table.keys();
        let reach = match keys.as_deref() {
            Some([]) => NOTHING,
            Some(_) => KEYS,
            None => ANYTHING,
        };

        self.table.store(Arc::clone(&table));
        self.filter.replace(keys.iter().flatten().copied());
        self.reach.store(reach, Relaxed);
    }

    /// The table, if it has an action on one of these demands.
    #[inline]
    pub(crate) fn touching(&self, demands: &[Demand<'_, EncodedKey>]) -> Option<Arc<ActionTable>> {
        let may_touch = match self.reach.load(Relaxed) {
            NOTHING => return None,
            KEYS => demands.iter().any(|demand| {
                let key = demand.key.as_bytes();
                self.filter.may_have(demand.limit.position(), key)
            }),
            _ => true,
        };
        may_touch.then(|| self.find(demands)).flatten()
    }

    #[cold]
    fn find(&self, demands: &[Demand<'_, EncodedKey>]) -> Option<Arc<ActionTable>> {
        let table = self.table.load();
        let is_touched = demands.iter().any(|demand| table.touches(demand));
        is_touched.then(|| Arc::clone(&table))
    }

    /// The whole table.
    pub(crate) fn table(&self) -> Arc<ActionTable> {
        self.table.load_full()
    }
}

/// Tells almost always that a key has no actions, from a few cache lines: a Bloom filter with one
/// hash. With ten thousand keys, one in thirteen of the others is looked up in vain.
#[derive(Debug)]
struct KeyFilter {
    words: Box<[AtomicU64; FILTER_WORDS]>,
    hasher: RandomState,
}

const FILTER_WORDS: usize = 2_048;

impl Default for KeyFilter {
    fn default() -> Self {
        Self {
            words: Box::new(array::from_fn(|_| AtomicU64::new(0))),
            hasher: RandomState::new(),
        }
    }
}

impl KeyFilter {
    /// Replaces the keys. No key that was in it and stays is missing meanwhile.
    fn replace<'k>(&self, keys: impl Iterator<Item = (usize, &'k [u8])>) {
        let mut words = [0; FILTER_WORDS];
        for (limit, key) in keys {
            let (word, bit) = self.place(limit, key);
            words[word] |= bit;
        }
        for (word, next) in self.words.iter().zip(words) {
            word.store(next, Relaxed);
        }
    }

    #[inline]
    fn may_have(&self, limit: usize, key: &[u8]) -> bool {
        let (word, bit) = self.place(limit, key);
        self.words[word].load(Relaxed) & bit != 0
    }

    /// The word of a key, and its bit there.
    #[inline]
    fn place(&self, limit: usize, key: &[u8]) -> (usize, u64) {
        let hash = self.hasher.hash_one((limit, key));
        let word = usize::try_from(hash >> 32).unwrap_or_default() % FILTER_WORDS;
        (word, 1 << (hash % 64))
    }
}
