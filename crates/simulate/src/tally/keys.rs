//! Who was refused most: exact as long as all who were refused fit, and with a stated error beyond.

use std::collections::HashMap;

use ahash::RandomState;
use tollgate::{EncodedKey, Micros};

/// What one key was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRefusals {
    pub(crate) refused: u64,
    pub(crate) first: Micros,
    pub(crate) last: Micros,
}

/// Keys by what they were refused.
///
/// When the table is full, the half that was refused least is forgotten. What the most refused of
/// them had been refused is the most by which any count that begins later can be too small.
#[derive(Clone, Debug)]
pub(crate) struct KeyTable {
    keys: HashMap<EncodedKey, KeyRefusals, RandomState>,
    keys_max: usize,
    error_max: u64,
}

impl KeyTable {
    pub(crate) fn new(keys_max: usize) -> Self {
        Self {
            keys: HashMap::default(),
            keys_max: keys_max.max(2),
            error_max: 0,
        }
    }

    /// Counts a refusal.
    pub(crate) fn refuse(&mut self, key: &EncodedKey, at: Micros) {
        if let Some(known) = self.keys.get_mut(key) {
            known.refused += 1;
            known.last = at;
            return;
        }
        if self.keys.len() >= self.keys_max {
            self.forget();
        }
        self.keys.insert(
            key.clone(),
            KeyRefusals {
                refused: 1,
                first: at,
                last: at,
            },
        );
    }

    /// Forgets the half that was refused least.
    #[cold]
    fn forget(&mut self) {
        let mut counts: Vec<u64> = self.keys.values().map(|key| key.refused).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = *median;
        self.error_max = self.error_max.max(median);
        self.keys.retain(|_, key| key.refused > median);
    }

    /// The most refused, and of equals the first.
    pub(crate) fn top(&self, count: usize) -> Vec<(&EncodedKey, KeyRefusals)> {
        let mut keys: Vec<_> = self
            .keys
            .iter()
            .map(|(key, refusals)| (key, *refusals))
            .collect();
        keys.sort_unstable_by_key(|(key, refusals)| {
            (
                std::cmp::Reverse(refusals.refused),
                refusals.first,
                key.as_bytes(),
            )
        });
        keys.truncate(count);
        keys
    }

    /// How many keys are known to have been refused.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// By how much a count may be too small; 0 when every count is exact and every key there.
    pub(crate) const fn error_max(&self) -> u64 {
        self.error_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(table: &mut KeyTable, key: u64, times: u64) {
        let encoded = EncodedKey::new(&key).unwrap();
        for at in 0..times {
            table.refuse(&encoded, Micros::from_secs(key + at));
        }
    }

    fn top(table: &KeyTable, count: usize) -> Vec<(u64, u64)> {
        let number = |key: &EncodedKey| match key.parts().next() {
            Some(tollgate::KeyPart::Number(number)) => number,
            part => unreachable!("keys are numbers here, and not {part:?}"),
        };
        table
            .top(count)
            .iter()
            .map(|(key, refusals)| (number(key), refusals.refused))
            .collect()
    }

    #[test]
    fn counts_are_exact_while_all_fit() {
        let mut table = KeyTable::new(10);
        for (key, times) in [(1, 3), (2, 5), (3, 1), (4, 5)] {
            refuse(&mut table, key, times);
        }
        assert_eq!(top(&table, 3), [(2, 5), (4, 5), (1, 3)]);
        assert_eq!((table.len(), table.error_max()), (4, 0));
        let KeyRefusals { first, last, .. } = table.top(1)[0].1;
        assert_eq!((first, last), (Micros::from_secs(2), Micros::from_secs(6)));
    }

    #[test]
    fn the_worst_stay_when_many_come_by_and_no_count_is_further_off_than_it_says() {
        let mut table = KeyTable::new(100);
        for round in 0..50 {
            refuse(&mut table, 1, 40);
            refuse(&mut table, 2, 30);
            for passer_by in 0..60 {
                refuse(&mut table, 1_000 + round * 60 + passer_by, 1);
            }
        }
        assert!(table.len() <= 100);
        assert!(table.error_max() > 0, "some were forgotten");
        let top = top(&table, 2);
        assert_eq!(top[0].0, 1);
        for ((_, counted), real) in top.iter().zip([2_000, 1_500]) {
            assert!(
                *counted <= real && counted + table.error_max() >= real,
                "{counted} of {real}"
            );
        }
    }

    #[test]
    fn a_table_full_of_equals_makes_room() {
        let mut table = KeyTable::new(4);
        for key in 0..100 {
            refuse(&mut table, key, 1);
        }
        assert!((1..=4).contains(&table.len()));
        assert_eq!(table.error_max(), 1);
    }
}
