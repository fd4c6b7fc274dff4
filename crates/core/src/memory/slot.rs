//! One counter, in 32 bytes.

use crate::algorithm::LockoutState;
use crate::key::Fingerprint;
use crate::time::Micros;

/// How much of a quota is used, from 0 (nothing) to [`QuotaUsage::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QuotaUsage(pub(super) u32);

impl QuotaUsage {
    pub(super) const ALL: Self = Self(1 << 20);
    /// From this usage on, 95 %, a key counts as exhausted. Exhausted keys are evicted only when
    /// no other key is left.
    pub(super) const EXHAUSTED: Self = Self((1 << 20) / 20 * 19);

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

        // A division of 128 bits takes several times as long.
        let parts = if used >> (u64::BITS - 20) == 0 {
            (used << 20).div_ceil(limit)
        } else {
            let parts = (u128::from(used) << 20).div_ceil(u128::from(limit));
            u64::try_from(parts).unwrap_or(u64::MAX)
        };
        Self(u32::try_from(parts).unwrap_or(Self::ALL.0))
    }
}

/// What the two words of a slot contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The slot is empty.
    Vacant,
    /// A fixed window: count and limit.
    Fixed,
    /// A sliding window: current and previous count. `until` is two lengths after the start of the
    /// current window.
    Sliding,
    /// A bucket: part of a microsecond, and span. `until` is the moment at which the bucket is
    /// idle.
    Bucket,
    /// A log or permits: the index in the shard's side table, and usage.
    Side,
    /// A bucket that was charged more than it holds; its words are those of a bucket.
    IndebtedBucket,
    /// The lockout of a key, next to its counter: the end of the window or of the lockout, and
    /// denials and level.
    Lockout,
}

/// A counter, packed into half a cache line:
///
/// - 64 bits of its fingerprint;
/// - two words of 54 bits, whose meaning depends on the kind, each with ten more bits of the
///   fingerprint above them;
/// - a word with the moment from which on the counter is expired (53 bits), the usage where the
///   two words do not determine it (8 bits), and the kind (3 bits).
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Slot {
    low: u64,
    first: u64,
    second: u64,
    meta: u64,
}

const KIND_BITS: u32 = 3;
/// The bits of a lockout's level.
const LEVEL_BITS: u32 = 8;
const USAGE_BITS: u32 = 8;
const USAGE_MAX: u64 = (1 << USAGE_BITS) - 1;
/// Enough for a limit of 2^53 that is used up.
const WORD_BITS: u32 = 54;
const WORD_MAX: u64 = (1 << WORD_BITS) - 1;
/// How many bits of the fingerprint are stored above each word.
const TAG_BITS: u32 = u64::BITS - WORD_BITS;
const TAG_MAX: u32 = (1 << TAG_BITS) - 1;

impl Slot {
    pub(super) const VACANT: Self = Self {
        low: 0,
        first: 0,
        second: 0,
        meta: 0,
    };

    #[inline(always)]
    pub(super) const fn new(
        fingerprint: Fingerprint,
        first: u64,
        second: u64,
        kind: Kind,
        until: Micros,
    ) -> Self {
        let until = if until.get() > Micros::MAX.get() {
            Micros::MAX.get()
        } else {
            until.get()
        };

        Self {
            low: fingerprint.low,
            first: word(first, fingerprint.high & TAG_MAX),
            second: word(second, fingerprint.high >> TAG_BITS & TAG_MAX),
            meta: until << (KIND_BITS + USAGE_BITS) | kind as u64,
        }
    }

    /// The same counter with its usage, where the two words do not determine it.
    #[inline(always)]
    pub(super) fn with_usage(self, usage: QuotaUsage) -> Self {
        let usage = u64::from(usage.0) * USAGE_MAX / u64::from(QuotaUsage::ALL.0);
        Self {
            meta: self.meta | usage << KIND_BITS,
            ..self
        }
    }

    /// The slot of a log or of permits, whose state is at `index` of the side table.
    pub(super) const fn side(
        fingerprint: Fingerprint,
        index: usize,
        until: Micros,
        usage: QuotaUsage,
    ) -> Self {
        Self::new(fingerprint, index as u64, usage.0 as u64, Kind::Side, until)
    }

    /// The low 64 bits of the fingerprint.
    #[inline(always)]
    pub(super) const fn low(&self) -> u64 {
        self.low
    }

    /// The fingerprint of the key.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "two tags make twenty bits")]
    pub(super) const fn fingerprint(&self) -> Fingerprint {
        let high = (self.second >> WORD_BITS << TAG_BITS | self.first >> WORD_BITS) as u32;
        Fingerprint {
            low: self.low,
            high,
        }
    }

    /// Returns true when the slot holds the counter of this key.
    #[inline(always)]
    pub(super) fn holds(&self, fingerprint: Fingerprint) -> bool {
        self.low == fingerprint.low && self.fingerprint() == fingerprint && !self.is_vacant()
    }

    pub(super) const fn first(&self) -> u64 {
        self.first & WORD_MAX
    }

    pub(super) const fn second(&self) -> u64 {
        self.second & WORD_MAX
    }

    pub(super) const fn kind(&self) -> Kind {
        match self.meta & ((1 << KIND_BITS) - 1) {
            1 => Kind::Fixed,
            2 => Kind::Sliding,
            3 => Kind::Bucket,
            4 => Kind::Side,
            5 => Kind::IndebtedBucket,
            6 => Kind::Lockout,
            _ => Kind::Vacant,
        }
    }

    pub(super) const fn is_vacant(&self) -> bool {
        self.meta == 0
    }

    /// The moment from which on dropping the counter changes no decision. The moment of a bucket
    /// may have a fraction, so the counter is expired only after it.
    pub(super) const fn until(&self) -> Micros {
        Micros::new(self.meta >> (KIND_BITS + USAGE_BITS))
    }

    pub(super) fn is_expired(&self, now: Micros) -> bool {
        self.until() < now
    }

    /// The index of a log or of permits in the shard's side table; `None` for other counters.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it was a usize when it was packed"
    )]
    pub(super) fn side_index(&self) -> Option<usize> {
        (self.kind() == Kind::Side).then_some(self.first() as usize)
    }

    /// How much of the quota is used at `now`. The limit itself is not known here.
    #[inline(always)]
    pub(super) fn usage(&self, now: Micros) -> QuotaUsage {
        if self.is_expired(now) {
            return QuotaUsage(0);
        }

        let (used, limit) = match self.kind() {
            Kind::Vacant => return QuotaUsage(0),
            Kind::Lockout => return self.lockout_usage(now),
            Kind::Side => return QuotaUsage(u32::try_from(self.second()).unwrap_or(u32::MAX)),
            Kind::Fixed => (self.first(), self.second()),
            Kind::Bucket | Kind::IndebtedBucket => (self.until().since(now).get(), self.second()),
            Kind::Sliding => (self.meta >> KIND_BITS & USAGE_MAX, USAGE_MAX),
        };
        QuotaUsage::from_ratio(used, limit)
    }

    /// The slot of a lockout.
    pub(super) fn lockout(fingerprint: Fingerprint, state: LockoutState) -> Self {
        let second = u64::from(state.denials) << LEVEL_BITS | u64::from(state.level);
        let first = state.ends.get();
        Self::new(fingerprint, first, second, Kind::Lockout, state.until)
    }

    /// The state of a lockout; that of a key that was never denied if this is another slot.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it was packed from 32 bits"
    )]
    pub(super) fn lockout_state(&self) -> LockoutState {
        if self.kind() != Kind::Lockout {
            return LockoutState::default();
        }
        LockoutState {
            ends: Micros::new(self.first()),
            denials: (self.second() >> LEVEL_BITS) as u32,
            level: (self.second() & ((1 << LEVEL_BITS) - 1)) as u32,
            until: self.until(),
        }
    }

    /// Who is locked out is evicted after all others, who is being denied like an exhausted key.
    fn lockout_usage(&self, now: Micros) -> QuotaUsage {
        match self.lockout_state().locked_for(now) {
            Some(_) => QuotaUsage::LOCKED,
            None => QuotaUsage::EXHAUSTED,
        }
    }

    pub(super) const fn to_words(self) -> [u64; 4] {
        [self.low, self.first, self.second, self.meta]
    }

    pub(super) const fn from_words([low, first, second, meta]: [u64; 4]) -> Self {
        Self {
            low,
            first,
            second,
            meta,
        }
    }
}

/// A word of 54 bits with ten bits of the fingerprint above it. All stored values fit: counts,
/// limits, moments and their parts are at most 2^53. A larger value becomes the largest word.
#[inline(always)]
const fn word(value: u64, tag: u32) -> u64 {
    let value = if value > WORD_MAX { WORD_MAX } else { value };
    (tag as u64) << WORD_BITS | value
}

const _: () = assert!(
    size_of::<Slot>() == 32,
    "the documented size of a counter is 32 bytes"
);
