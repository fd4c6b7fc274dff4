//! What threads know about a hot key without a lock.

use super::super::slot::Slot;
use crate::time::Micros;

/// The words of a record.
pub(super) const RECORD_WORDS: usize = 11;

/// A hot key as all threads see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct HotRecord {
    /// The counter, without the units of `split`. Vacant when no key is hot.
    pub(super) slot: Slot,
    pub(super) split: SplitRecord,
}

/// The units of a hot key that were set aside for stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SplitRecord {
    /// The number of the split, 0 if the key is not split.
    pub(super) number: u64,
    /// The units set aside, whether spent or not.
    pub(super) units: u64,
    /// When units were last set aside. Earlier moments need the lock, as the clock was set back.
    pub(super) since: Micros,
    /// The last moment at which the order of spends does not matter.
    pub(super) until: Micros,
    /// The numbers of the quota, see [`SlotQuota::numbers`](super::super::slot_quota::SlotQuota).
    pub(super) quota: [u64; 3],
}

impl SplitRecord {
    /// No split.
    pub(super) const NONE: Self = Self {
        number: 0,
        units: 0,
        since: Micros::ZERO,
        until: Micros::ZERO,
        quota: [0; 3],
    };

    pub(super) const fn is_none(&self) -> bool {
        self.number == 0
    }

    /// True when a demand on this quota at this moment can be spent from a stripe.
    #[inline(always)]
    pub(super) fn covers(&self, quota: [u64; 3], now: Micros) -> bool {
        self.quota == quota && self.since <= now && now <= self.until
    }
}

impl HotRecord {
    /// No key is hot.
    pub(super) const NONE: Self = Self {
        slot: Slot::VACANT,
        split: SplitRecord::NONE,
    };

    /// The words; the first are the low bits of the fingerprint.
    pub(super) const fn to_words(self) -> [u64; RECORD_WORDS] {
        let [low, first, second, meta] = self.slot.to_words();
        let SplitRecord {
            number,
            units,
            since,
            until,
            quota: [limit, count, period],
        } = self.split;

        let (since, until) = (since.get(), until.get());
        [
            low, first, second, meta, number, units, since, until, limit, count, period,
        ]
    }

    #[inline(always)]
    pub(super) const fn from_words(words: [u64; RECORD_WORDS]) -> Self {
        let [
            low,
            first,
            second,
            meta,
            number,
            units,
            since,
            until,
            quota @ ..,
        ] = words;
        Self {
            slot: Slot::from_words([low, first, second, meta]),
            split: SplitRecord {
                number,
                units,
                since: Micros::new(since),
                until: Micros::new(until),
                quota,
            },
        }
    }
}
