//! The heaviest keys of a period that is over, and how summaries of several periods become one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use tollgate::EncodedKey;

use super::row::{HashOfHash, KeyUsage, long_bytes};

/// The heaviest keys of a period.
#[derive(Clone, Debug, Default)]
pub struct UsageSummary {
    /// The keys by their hashes.
    pub(super) rows: Vec<(u64, KeyUsage)>,
    /// The most units that a key may have that is not listed.
    pub(super) floor: u64,
    /// The units of all keys, listed or not.
    pub(super) total: u64,
}

impl UsageSummary {
    /// The keys; of a list of the heaviest ones, in descending order.
    pub fn rows(&self) -> impl Iterator<Item = &KeyUsage> {
        self.rows.iter().map(|(_, row)| row)
    }

    /// The units of all keys, listed or not.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// A summary of these keys, which are found by `hash`. No key that is not among them has more
    /// than `floor` units.
    pub(crate) fn new(
        rows: impl Iterator<Item = KeyUsage>,
        floor: u64,
        hash: impl Fn(&EncodedKey) -> u64,
    ) -> Self {
        let rows = rows.map(|row| (hash(&row.key), row));
        Self {
            rows: rows.collect(),
            floor,
            total: 0,
        }
    }

    /// The most units that a key may have that is not among the first `rows_max`.
    pub(crate) fn floor_below(&self, rows_max: usize) -> u64 {
        let dropped = self.rows().skip(rows_max).map(|row| row.units);
        self.floor.max(dropped.max().unwrap_or(0))
    }

    /// The sum of several summaries. What a key may have used in a period that does not list it
    /// becomes part of its error.
    pub(crate) fn merge<'s>(parts: impl Iterator<Item = &'s Self> + Clone) -> Self {
        let floors = || parts.clone().map(|part| part.floor);
        let floor = floors().fold(0, u64::saturating_add);
        let totals = parts.clone().map(|part| part.total);
        let total = totals.fold(0, u64::saturating_add);

        // Starts from the sum of all floors, and corrects it for each period that lists the key.
        let mut merged: HashMap<u64, KeyUsage, BuildHasherDefault<HashOfHash>> = HashMap::default();
        for part in parts {
            for (hash, row) in &part.rows {
                let sum = merged.entry(*hash).or_insert_with(|| KeyUsage {
                    key: row.key.clone(),
                    units: floor,
                    error: floor,
                    requests: 0,
                });
                sum.units = sum.units.saturating_sub(part.floor);
                sum.units = sum.units.saturating_add(row.units);
                sum.error = sum.error.saturating_sub(part.floor);
                sum.error = sum.error.saturating_add(row.error);
                sum.requests = sum.requests.saturating_add(row.requests);
            }
        }

        Self {
            rows: merged.into_iter().collect(),
            floor,
            total,
        }
    }

    /// Keeps the heaviest rows, up to this size in bytes.
    pub(super) fn truncate(&mut self, bytes_max: usize) {
        let row_bytes = |row: &KeyUsage| size_of::<(u64, KeyUsage)>() + long_bytes(&row.key);
        let rows_max = (bytes_max / size_of::<(u64, KeyUsage)>()).max(1);
        if self.rows.len() > rows_max {
            let heaviest = |(_, row): &(u64, KeyUsage)| Reverse(row.units);
            self.rows.select_nth_unstable_by_key(rows_max, heaviest);
            self.drop_from(rows_max);
        }

        if self.rows().map(row_bytes).sum::<usize>() > bytes_max {
            self.rows.sort_by_key(|(_, row)| Reverse(row.units));
            let mut bytes = 0;
            let fits = |(_, row): &&(u64, KeyUsage)| {
                bytes += row_bytes(row);
                bytes <= bytes_max
            };
            let count = self.rows.iter().take_while(fits).count();
            self.drop_from(count.max(1));
        }
        self.rows.shrink_to_fit();
    }

    /// The memory that the rows take, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let long_keys = self.rows().map(|row| long_bytes(&row.key)).sum::<usize>();
        self.rows.capacity() * size_of::<(u64, KeyUsage)>() + long_keys
    }

    /// Drops the rows from this index on.
    fn drop_from(&mut self, index: usize) {
        let dropped = self.rows.iter().skip(index).map(|(_, row)| row.units);
        self.floor = self.floor.max(dropped.max().unwrap_or(0));
        self.rows.truncate(index);
    }

    /// Puts the heaviest keys first: by the units that are certain, then by the upper bound.
    pub(crate) fn sort(&mut self) {
        let rank = |row: &KeyUsage| Reverse((row.certain_units(), row.units));
        self.rows.sort_by_key(|(hash, row)| (rank(row), *hash));
    }
}
