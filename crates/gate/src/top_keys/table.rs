//! Counts the keys of the last seconds in bounded memory.
//!
//! A full table drops the lighter half of its keys and remembers the heaviest count it dropped, its
//! *floor*: no key that is not in the table has more. A new key starts from there. This is the
//! algorithm of Misra and Gries with its decrements done in batches: the floor is at most the units
//! counted divided by half the size of the table.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use tollgate::EncodedKey;

use super::row::{HashOfHash, KeyUsage, long_bytes};
use super::summary::UsageSummary;

/// The most buckets of the hash map. It fills seven of eight.
const BUCKETS_MAX: usize = 2_048;
/// The fewest keys at which a table drops some.
const KEYS_MIN: usize = 8;
/// What a bucket of the hash map takes, in bytes.
const BUCKET_BYTES: usize = size_of::<(u64, KeyUsage)>() + 1;

/// The keys of the last seconds.
#[derive(Debug, Default)]
pub(super) struct UsageTable {
    rows: HashMap<u64, KeyUsage, BuildHasherDefault<HashOfHash>>,
    /// Bytes of keys that are too long to be in their rows.
    long_key_bytes: usize,
    /// The most units that a key may have that is not in the table.
    floor: u64,
    /// The units of all keys.
    total: u64,
}

impl UsageTable {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.total == 0
    }

    /// Counts a request. `bytes_max` bounds the memory of the table.
    #[inline]
    pub(super) fn record(&mut self, hash: u64, key: &EncodedKey, units: u64, bytes_max: usize) {
        self.total = self.total.saturating_add(units);
        if let Some(row) = self.rows.get_mut(&hash) {
            row.units = row.units.saturating_add(units);
            row.requests += 1;
            return;
        }

        self.insert(hash, key, units, bytes_max);
    }

    #[inline(never)]
    fn insert(&mut self, hash: u64, key: &EncodedKey, units: u64, bytes_max: usize) {
        let buckets_max = (bytes_max / BUCKET_BYTES).min(BUCKETS_MAX);
        let keys_max = (1 << buckets_max.max(1).ilog2()) / 8 * 7;
        let long_key = long_bytes(key);
        let is_full = self.rows.len() >= keys_max || self.bytes() + long_key > bytes_max;
        if is_full && self.rows.len() >= KEYS_MIN {
            self.drop_lighter_half();
        }

        self.long_key_bytes += long_key;
        let row = KeyUsage {
            key: key.clone(),
            units: self.floor.saturating_add(units),
            error: self.floor,
            requests: 1,
        };
        self.rows.insert(hash, row);
    }

    #[cold]
    fn drop_lighter_half(&mut self) {
        let mut units: Vec<u64> = self.rows.values().map(|row| row.units).collect();
        let middle = units.len() / 2;
        let (_, &mut median, _) = units.select_nth_unstable(middle);

        self.floor = self.floor.max(median);
        // Removing rows one by one would mark their buckets as deleted, and the map would grow.
        let rows: Vec<_> = self.rows.drain().collect();
        let kept = rows.into_iter().filter(|(_, row)| row.units > median);
        self.rows.extend(kept);
        self.long_key_bytes = self.rows.values().map(|row| long_bytes(&row.key)).sum();
    }

    /// The heaviest rows, up to this size in bytes.
    pub(super) fn summary(&self, bytes_max: usize) -> UsageSummary {
        let rows_max = (bytes_max / size_of::<(u64, KeyUsage)>()).max(1);
        let mut units: Vec<u64> = self.rows.values().map(|row| row.units).collect();
        let least = match units.len().checked_sub(rows_max) {
            Some(dropped @ 1..) => *units.select_nth_unstable(dropped).1,
            _ => 0,
        };

        // Rows that are too light are not copied: a decision may wait for this.
        let (kept, dropped): (Vec<_>, Vec<_>) =
            self.rows.iter().partition(|(_, row)| row.units >= least);
        let lighter = dropped.iter().map(|(_, row)| row.units).max();
        let mut summary = UsageSummary {
            rows: kept
                .iter()
                .map(|(hash, row)| (**hash, (*row).clone()))
                .collect(),
            floor: self.floor.max(lighter.unwrap_or(0)),
            total: self.total,
        };
        summary.truncate(bytes_max);
        summary
    }

    /// The memory that the table takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let buckets = (self.rows.capacity() * 8 / 7).next_power_of_two();
        buckets * BUCKET_BYTES + self.long_key_bytes
    }

    /// Removes all keys. The memory stays for the next ones.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        (self.long_key_bytes, self.floor, self.total) = (0, 0, 0);
    }
}
