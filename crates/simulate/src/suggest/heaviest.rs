//! The keys with the highest peaks, by name.

use std::cmp::Reverse;
use std::collections::HashMap;

use ahash::RandomState;
use tollgate::{EncodedKey, Micros};

/// The number of keys that are certainly kept: as many as a report can list.
pub(super) const HEAVIEST_MAX: usize = 1_000;

/// The peak usage of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPeak {
    /// Units in use, by the limit's own algorithm.
    pub(crate) used: u64,
    /// When the peak was reached.
    pub(crate) at: Micros,
}

/// The keys with the highest peaks.
///
/// When the table is full, it drops the lower half. A dropped key comes back with its next, higher
/// peak if it belongs to the heaviest, so these are always exact.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeaviestKeys {
    keys: HashMap<EncodedKey, KeyPeak, RandomState>,
    /// Peaks up to this one do not belong to the heaviest.
    dropped_max: u64,
}

impl HeaviestKeys {
    /// Records that a key has reached a new peak.
    pub(super) fn record(&mut self, key: &EncodedKey, peak: KeyPeak) {
        if peak.used <= self.dropped_max {
            return;
        }
        if let Some(known) = self.keys.get_mut(key) {
            *known = peak;
            return;
        }

        self.keys.insert(key.clone(), peak);
        if self.keys.len() > 2 * HEAVIEST_MAX {
            self.drop_lowest();
        }
    }

    /// Drops all but the heaviest.
    #[cold]
    fn drop_lowest(&mut self) {
        let mut peaks: Vec<u64> = self.keys.values().map(|peak| peak.used).collect();
        peaks.select_nth_unstable_by_key(HEAVIEST_MAX, |used| Reverse(*used));
        self.dropped_max = peaks[HEAVIEST_MAX];
        self.keys.retain(|_, peak| peak.used > self.dropped_max);
    }

    /// The keys with the highest peaks above a limit. Ties are ordered by time.
    pub(crate) fn above(&self, limit: u64, count: usize) -> Vec<(&EncodedKey, KeyPeak)> {
        let mut keys: Vec<_> = self
            .keys
            .iter()
            .filter(|(_, peak)| peak.used > limit)
            .map(|(key, peak)| (key, *peak))
            .collect();

        keys.sort_unstable_by_key(|(key, peak)| (Reverse(peak.used), peak.at, key.as_bytes()));
        keys.truncate(count);
        keys
    }
}

#[cfg(test)]
mod tests {
    use testkit::dice::Dice;

    use super::*;

    #[test]
    fn the_heaviest_keys_are_exact() {
        let (mut table, mut dice) = (HeaviestKeys::default(), Dice::new(5));
        let mut peaks = HashMap::<u64, u64>::new();
        for at in 0..60_000 {
            let key = dice.below(9_000);
            let peak = peaks.entry(key).or_default();
            *peak += 1 + dice.below(key + 1);
            let at = Micros::from_secs(at);
            table.record(&EncodedKey::new(&key).unwrap(), KeyPeak { used: *peak, at });
        }
        assert!(table.keys.len() <= 2 * HEAVIEST_MAX && table.dropped_max > 0);

        let mut expected: Vec<u64> = peaks.into_values().collect();
        expected.sort_unstable_by_key(|peak| Reverse(*peak));
        expected.truncate(500);
        let found: Vec<u64> = table.above(0, 500).iter().map(|key| key.1.used).collect();
        assert_eq!(found, expected);
        assert_eq!(table.above(expected[20], 500).len(), 20);
    }
}
