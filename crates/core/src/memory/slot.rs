//! One counter of fixed size, in five words.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::limit_usage::LimitNumber;
use crate::key::Fingerprint;
use crate::time::Micros;

/// How much of a quota is used, from 0 (nothing) to [`QuotaUsage::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QuotaUsage(pub(super) u16);

impl QuotaUsage {
    /// Fifteen bits, so that the values above all of them fit into 16.
    const BITS: u32 = 15;
    pub(super) const NONE: Self = Self(0);
    pub(super) const ALL: Self = Self(1 << Self::BITS);
    /// From this usage on, 95 %, a key counts as exhausted. Exhausted keys are evicted only when
    /// no other key is left.
    pub(super) const EXHAUSTED: Self = Self((1 << Self::BITS) / 20 * 19);
    /// The usage of a key that is locked out: more than all, so that it is evicted last.
    pub(super) const LOCKED: Self = Self(Self::ALL.0 + 1);
    /// The usage of permits in flight: more than any that can be evicted.
    pub(super) const PINNED: Self = Self(Self::ALL.0 + 2);

    /// `used / limit`, rounded up.
    #[inline(always)]
    pub(super) fn from_ratio(used: u64, limit: u64) -> Self {
        if used >= limit {
            return Self::ALL;
        }
        let parts = if used.leading_zeros() >= Self::BITS {
            (used << Self::BITS).div_ceil(limit)
        } else {
            used.div_ceil(limit >> Self::BITS)
        };
        Self(u16::try_from(parts).unwrap_or(Self::ALL.0))
    }
}

/// The algorithm whose state the words of a slot contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateKind {
    /// Count and limit, until the end of the window.
    Fixed = 1,
    /// Current and previous count, until two lengths after the start of the current window.
    Sliding,
    /// Part of a microsecond and span, until the moment at which the bucket is idle.
    Bucket,
    /// A bucket that was charged more than it holds; its words are those of a bucket.
    IndebtedBucket,
}

/// The state of a counter as words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotState {
    /// The kind of the state, and the usage of a sliding window; that of other states follows from
    /// their words.
    form: u64,
    pub(super) first: u64,
    pub(super) second: u64,
    /// The moment from which on dropping the counter changes no decision. The moment of a bucket
    /// may have a fraction, so the counter is expired only after it.
    pub(super) until: Micros,
}

impl SlotState {
    #[inline(always)]
    pub(super) const fn new(kind: StateKind, [first, second]: [u64; 2], until: Micros) -> Self {
        Self {
            form: kind as u64,
            first,
            second,
            until,
        }
    }

    #[inline(always)]
    const fn from_words([tag, first, second, until]: [u64; 4]) -> Self {
        Self {
            form: tag & STATE_BITS,
            first,
            second,
            until: Micros::new(until),
        }
    }

    /// The same state with its usage.
    #[inline(always)]
    pub(super) fn with_usage(self, usage: QuotaUsage) -> Self {
        let form = self.form | usage_bits(usage);
        Self { form, ..self }
    }

    #[inline(always)]
    pub(super) const fn is(&self, kind: StateKind) -> bool {
        self.form & KIND_BITS == kind as u64
    }

    pub(super) fn is_expired(&self, now: Micros) -> bool {
        self.until < now
    }

    /// The usage beside the kind.
    pub(super) const fn saved_usage(&self) -> QuotaUsage {
        usage_of(self.form)
    }

    /// How much of the quota is used at `now`. The limit itself is not known here.
    pub(super) fn usage(&self, now: Micros) -> QuotaUsage {
        if self.is_expired(now) {
            QuotaUsage::NONE
        } else if self.is(StateKind::Sliding) {
            self.saved_usage()
        } else if self.is(StateKind::Fixed) {
            QuotaUsage::from_ratio(self.first, self.second)
        } else {
            QuotaUsage::from_ratio(self.until.since(now).get(), self.second)
        }
    }
}

/// A counter with its key and its limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotEntry {
    pub(super) fingerprint: Fingerprint,
    pub(super) limit: LimitNumber,
    pub(super) state: SlotState,
}

impl SlotEntry {
    /// The words of the counter: in a slot, and in a snapshot.
    pub(super) fn to_words(self) -> [u64; 5] {
        let state = self.state;
        let tag = key_bits(self.fingerprint, self.limit) | state.form;
        [
            self.fingerprint.low,
            tag,
            state.first,
            state.second,
            state.until.get(),
        ]
    }

    /// The counter with these words.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a tag has 32 bits of the fingerprint, and 8 of the limit's number"
    )]
    pub(super) const fn from_words([low, tag, first, second, until]: [u64; 5]) -> Self {
        Self {
            fingerprint: Fingerprint {
                low,
                high: (tag >> HIGH_SHIFT) as u32,
            },
            limit: LimitNumber::from_byte((tag >> LIMIT_SHIFT) as u8),
            state: SlotState::from_words([tag, first, second, until]),
        }
    }
}

/// A counter in the table: 64 bits of its fingerprint, a tag, and the three words of its state. A
/// vacant slot has the tag 0. All words are read and written relaxed: the sequence word of the
/// shard orders them.
#[derive(Debug, Default)]
pub(super) struct Slot([AtomicU64; 5]);

impl Slot {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.0[index].load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn is_vacant(&self) -> bool {
        self.word(TAG) == 0
    }

    /// True when the slot holds the counter of this key.
    #[inline(always)]
    pub(super) fn holds(&self, fingerprint: Fingerprint) -> bool {
        let tag = self.word(TAG);
        self.word(0) == fingerprint.low
            && tag >> HIGH_SHIFT == u64::from(fingerprint.high)
            && tag != 0
    }

    /// The counter in the slot; `None` if it is vacant.
    pub(super) fn entry(&self) -> Option<SlotEntry> {
        let words = std::array::from_fn(|index| self.word(index));
        (!self.is_vacant()).then(|| SlotEntry::from_words(words))
    }

    /// The state of the counter in the slot.
    #[inline(always)]
    pub(super) fn state(&self) -> SlotState {
        SlotState::from_words([self.word(TAG), self.word(2), self.word(3), self.word(4)])
    }

    /// Writes a counter into the slot, or vacates it. The shard must be held.
    pub(super) fn set(&self, entry: Option<SlotEntry>) {
        let words = entry.map_or([0; 5], SlotEntry::to_words);
        for (word, value) in self.0.iter().zip(words) {
            word.store(value, Relaxed);
        }
    }

    /// Replaces the state of the counter in the slot. The shard must be held.
    #[inline(always)]
    pub(super) fn set_state(&self, state: SlotState) {
        let [_, tag, first, second, until] = &self.0;
        tag.store(self.word(TAG) & !STATE_BITS | state.form, Relaxed);
        first.store(state.first, Relaxed);
        second.store(state.second, Relaxed);
        until.store(state.until.get(), Relaxed);
    }
}

/// The index of the tag.
const TAG: usize = 1;

// A tag: 32 bits of the fingerprint, 16 of usage, 8 of the limit's number, and 8 of the kind.
const HIGH_SHIFT: u32 = 32;
const USAGE_SHIFT: u32 = 16;
const LIMIT_SHIFT: u32 = 8;
pub(super) const KIND_BITS: u64 = 0xff;
const STATE_BITS: u64 = 0xffff << USAGE_SHIFT | KIND_BITS;

pub(super) fn key_bits(fingerprint: Fingerprint, limit: LimitNumber) -> u64 {
    u64::from(fingerprint.high) << HIGH_SHIFT | u64::from(limit.get()) << LIMIT_SHIFT
}

pub(super) fn usage_bits(usage: QuotaUsage) -> u64 {
    u64::from(usage.0) << USAGE_SHIFT
}

#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "a tag has 16 bits of usage"
)]
const fn usage_of(tag: u64) -> QuotaUsage {
    QuotaUsage((tag >> USAGE_SHIFT) as u16)
}
