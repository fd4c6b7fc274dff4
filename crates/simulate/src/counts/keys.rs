//! The keys that were denied most. Exact while all denied keys fit, and with a known maximum error
//! beyond that.

use std::cmp::Reverse;
use std::collections::HashMap;

use ahash::RandomState;
use tollgate::{EncodedKey, Micros};

/// The denials of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyDenials {
    pub(crate) count: u64,
    pub(crate) first: Micros,
    pub(crate) last: Micros,
}

/// The denials of keys.
///
/// When the table is full, it drops the half of the keys with the fewest denials. A key that comes
/// back starts at zero, so its count may be too low by at most the largest count ever dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyTable {
    keys: HashMap<EncodedKey, KeyDenials, RandomState>,
    keys_max: usize,
    /// By how much a count may be too low. 0 if all counts are exact and no key was dropped.
    pub(crate) error_max: u64,
}

impl KeyTable {
    pub(crate) fn new(keys_max: usize) -> Self {
        Self {
            keys_max: keys_max.max(2),
            ..Self::default()
        }
    }

    /// Counts a denial.
    pub(crate) fn record(&mut self, key: &EncodedKey, at: Micros) {
        if let Some(known) = self.keys.get_mut(key) {
            known.count += 1;
            known.last = at;
            return;
        }

        if self.keys.len() >= self.keys_max {
            self.drop_lowest();
        }
        let denials = KeyDenials {
            count: 1,
            first: at,
            last: at,
        };
        self.keys.insert(key.clone(), denials);
    }

    /// Drops the half of the keys with the fewest denials.
    #[cold]
    fn drop_lowest(&mut self) {
        let mut counts: Vec<u64> = self.keys.values().map(|key| key.count).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = *median;
        self.error_max = self.error_max.max(median);
        self.keys.retain(|_, key| key.count > median);
    }

    /// The keys with the most denials. Ties are ordered by the time of the first denial.
    pub(crate) fn top(&self, count: usize) -> Vec<(&EncodedKey, KeyDenials)> {
        let mut keys: Vec<_> = self
            .keys
            .iter()
            .map(|(key, denials)| (key, *denials))
            .collect();
        keys.sort_unstable_by_key(|(key, denials)| {
            (Reverse(denials.count), denials.first, key.as_bytes())
        });
        keys.truncate(count);
        keys
    }

    /// The number of denied keys in the table.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deny(table: &mut KeyTable, key: u64, times: u64) {
        let encoded = EncodedKey::new(&key).unwrap();
        for at in 0..times {
            table.record(&encoded, Micros::from_secs(key + at));
        }
    }

    fn top(table: &KeyTable, count: usize) -> Vec<(u64, u64)> {
        let number = |key: &EncodedKey| match key.parts().next() {
            Some(tollgate::KeyPart::Number(number)) => number,
            part => unreachable!("expected a number, found {part:?}"),
        };
        table
            .top(count)
            .iter()
            .map(|(key, denials)| (number(key), denials.count))
            .collect()
    }

    #[test]
    fn counts_are_exact_while_all_fit() {
        let mut table = KeyTable::new(10);
        for (key, times) in [(1, 3), (2, 5), (3, 1), (4, 5)] {
            deny(&mut table, key, times);
        }
        assert_eq!(top(&table, 3), [(2, 5), (4, 5), (1, 3)]);
        assert_eq!((table.len(), table.error_max), (4, 0));
        let KeyDenials { first, last, .. } = table.top(1)[0].1;
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
        assert!(table.error_max > 0, "some keys were dropped");
        let top = top(&table, 2);
        assert_eq!(top[0].0, 1);
        for ((_, counted), real) in top.iter().zip([2_000, 1_500]) {
            assert!(
                *counted <= real && counted + table.error_max >= real,
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
        assert_eq!(table.error_max, 1);
    }
}
