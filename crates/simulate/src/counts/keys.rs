//! The keys that rank highest, such as those that were denied most.

use std::cmp::Reverse;
use std::collections::HashMap;

use ahash::RandomState;
use tollgate::{EncodedKey, Micros};

/// The rank of one key: the number of its denials, or its peak usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRank {
    pub(crate) rank: u64,
    /// When it was first counted, or when the peak was reached.
    pub(crate) first: Micros,
    pub(crate) last: Micros,
}

/// The keys that rank highest.
///
/// When the table is full, it drops the half of the keys with the lowest ranks. A key that is
/// counted and comes back starts at zero, so its count may be too low by at most the highest rank
/// ever dropped. A key that is ranked comes back with its next peak if it belongs to the higher
/// half, so that half is always exact.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyTable {
    keys: HashMap<EncodedKey, KeyRank, RandomState>,
    keys_max: usize,
    /// The highest rank that was dropped. 0 if no key was.
    pub(crate) dropped_max: u64,
}

impl KeyTable {
    pub(crate) fn new(keys_max: usize) -> Self {
        Self {
            keys_max: keys_max.max(2),
            ..Self::default()
        }
    }

    /// Counts a denial.
    pub(crate) fn count(&mut self, key: &EncodedKey, at: Micros) {
        match self.keys.get_mut(key) {
            Some(known) => {
                known.rank += 1;
                known.last = at;
            }
            None => self.insert(key, 1, at),
        }
    }

    /// Ranks a key by a new, higher peak.
    pub(crate) fn raise(&mut self, key: &EncodedKey, peak: u64, at: Micros) {
        if self.keys.contains_key(key) || peak > self.dropped_max {
            self.insert(key, peak, at);
        }
    }

    fn insert(&mut self, key: &EncodedKey, rank: u64, at: Micros) {
        if self.keys.len() >= self.keys_max && !self.keys.contains_key(key) {
            self.drop_lowest();
        }
        let (first, last) = (at, at);
        self.keys.insert(key.clone(), KeyRank { rank, first, last });
    }

    /// Drops the half of the keys with the lowest ranks.
    #[cold]
    fn drop_lowest(&mut self) {
        let mut ranks: Vec<u64> = self.keys.values().map(|key| key.rank).collect();
        let middle = ranks.len() / 2;
        let (_, median, _) = ranks.select_nth_unstable(middle);
        let median = *median;
        self.dropped_max = self.dropped_max.max(median);
        self.keys.retain(|_, key| key.rank > median);
    }

    /// The keys that rank highest, and above a bound. Ties are ordered by time.
    pub(crate) fn top(&self, above: u64, count: usize) -> Vec<(&EncodedKey, KeyRank)> {
        let keys = self.keys.iter().filter(|(_, key)| key.rank > above);
        let mut keys: Vec<_> = keys.map(|(key, rank)| (key, *rank)).collect();
        keys.sort_unstable_by_key(|(key, found)| {
            (Reverse(found.rank), found.first, key.as_bytes())
        });
        keys.truncate(count);
        keys
    }

    /// The number of keys in the table.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}

#[cfg(test)]
mod tests {
    use testkit::dice::Dice;

    use super::*;

    fn deny(table: &mut KeyTable, key: u64, times: u64) {
        let encoded = EncodedKey::new(&key).unwrap();
        for at in 0..times {
            table.count(&encoded, Micros::from_secs(key + at));
        }
    }

    fn top(table: &KeyTable, count: usize) -> Vec<(u64, u64)> {
        let number = |key: &EncodedKey| match key.parts().next() {
            Some(tollgate::KeyPart::Number(number)) => number,
            part => unreachable!("expected a number, found {part:?}"),
        };
        table
            .top(0, count)
            .iter()
            .map(|(key, denials)| (number(key), denials.rank))
            .collect()
    }

    #[test]
    fn counts_are_exact_while_all_fit() {
        let mut table = KeyTable::new(10);
        for (key, times) in [(1, 3), (2, 5), (3, 1), (4, 5)] {
            deny(&mut table, key, times);
        }
        assert_eq!(top(&table, 3), [(2, 5), (4, 5), (1, 3)]);
        assert_eq!((table.len(), table.dropped_max), (4, 0));
        let KeyRank { first, last, .. } = table.top(0, 1)[0].1;
        assert_eq!((first, last), (Micros::from_secs(2), Micros::from_secs(6)));
    }

    #[test]
    fn the_top_keys_survive_and_counts_are_within_the_stated_error() {
        let mut table = KeyTable::new(100);
        for round in 0..50 {
            deny(&mut table, 1, 40);
            deny(&mut table, 2, 30);
            for rare_key in 0..60 {
                deny(&mut table, 1_000 + round * 60 + rare_key, 1);
            }
        }
        assert!(table.len() <= 100);
        assert!(table.dropped_max > 0, "some keys were dropped");
        let top = top(&table, 2);
        assert_eq!(top[0].0, 1);
        for ((_, counted), real) in top.iter().zip([2_000, 1_500]) {
            assert!(
                *counted <= real && counted + table.dropped_max >= real,
                "{counted} of {real}"
            );
        }
    }

    #[test]
    fn a_table_full_of_equal_counts_makes_room() {
        let mut table = KeyTable::new(4);
        for key in 0..100 {
            deny(&mut table, key, 1);
        }
        assert!((1..=4).contains(&table.len()));
        assert_eq!(table.dropped_max, 1);
    }

    #[test]
    fn the_heaviest_keys_are_exact() {
        let (mut table, mut dice) = (KeyTable::new(2_001), Dice::new(5));
        let mut peaks = HashMap::<u64, u64>::new();
        for at in 0..60_000 {
            let key = dice.below(9_000);
            let peak = peaks.entry(key).or_default();
            *peak += 1 + dice.below(key + 1);
            let at = Micros::from_secs(at);
            table.raise(&EncodedKey::new(&key).unwrap(), *peak, at);
        }
        assert!(table.len() <= 2_001 && table.dropped_max > 0);

        let mut expected: Vec<u64> = peaks.into_values().collect();
        expected.sort_unstable_by_key(|peak| Reverse(*peak));
        expected.truncate(500);
        let found: Vec<u64> = table.top(0, 500).iter().map(|key| key.1.rank).collect();
        assert_eq!(found, expected);
        assert_eq!(table.top(expected[20], 500).len(), 20);
    }
}
