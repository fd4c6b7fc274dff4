//! One counter, in 32 bytes.

use super::fingerprint::Fingerprint;
use crate::algorithm::{BucketState, Gcra, SlidingCounts, WindowCount};
use crate::time::Micros;

/// How much of a budget is used, from 0 (none) to [`Usage::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Usage(pub(super) u32);

impl Usage {
    pub(super) const ALL: Self = Self(1 << 20);
    /// From here on a key counts as an offender, which is forgotten only when there is nothing else
    /// to forget.
    pub(super) const OFFENDER: Self = Self((1 << 20) / 20 * 19);

    /// `used / all`, rounded up.
    pub(super) fn of(used: u64, all: u64) -> Self {
        let parts = (u128::from(used) << 20).div_ceil(u128::from(all.max(1)));
        Self(u32::try_from(parts).unwrap_or(u32::MAX).min(Self::ALL.0))
    }
}

/// What the words of a slot mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing here.
    Vacant,
    /// A fixed window: count, limit.
    Fixed,
    /// A sliding window: current and previous count. `until` is two lengths after the window's
    /// start.
    Sliding,
    /// A bucket: part of a microsecond, span. `until` is its moment of rest.
    Bucket,
    /// A log or leases: where the shard keeps them.
    Side,
}

/// A counter, packed into half a cache line: 64 bits of its fingerprint; two words by kind of 54
/// bits, each with ten more bits of the fingerprint; and a word with the moment from which on the
/// counter is as good as none (53 bits), the usage where the words do not tell it (8 bits) and the
/// kind (3 bits).
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Slot {
    low: u64,
    first: u64,
    second: u64,
    meta: u64,
}

const KIND_BITS: u32 = 3;
const USAGE_BITS: u32 = 8;
const USAGE_MAX: u64 = (1 << USAGE_BITS) - 1;
/// Enough for a limit of 2^53 that is used up.
const WORD_BITS: u32 = 54;
const WORD_MAX: u64 = (1 << WORD_BITS) - 1;
/// How much of the fingerprint travels above each word.
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
    const fn new(
        print: Fingerprint,
        first: u64,
        second: u64,
        kind: Kind,
        until: Micros,
        usage: u64,
    ) -> Self {
        let until = if until.get() > Micros::MAX.get() {
            Micros::MAX.get()
        } else {
            until.get()
        };
        Self {
            low: print.low,
            first: word(first, print.high & TAG_MAX),
            second: word(second, print.high >> TAG_BITS & TAG_MAX),
            meta: until << (KIND_BITS + USAGE_BITS) | usage << KIND_BITS | kind as u64,
        }
    }

    /// The first word, as it is.
    #[inline(always)]
    pub(super) const fn low(&self) -> u64 {
        self.low
    }

    /// The fingerprint of the key.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "two tags make twenty bits")]
    pub(super) const fn print(&self) -> Fingerprint {
        let high = (self.second >> WORD_BITS << TAG_BITS | self.first >> WORD_BITS) as u32;
        Fingerprint {
            low: self.low,
            high,
        }
    }

    /// True when a counter is here and it is this key's.
    #[inline(always)]
    pub(super) fn holds(&self, print: Fingerprint) -> bool {
        self.low == print.low && self.print() == print && !self.is_vacant()
    }

    pub(super) const fn fixed(print: Fingerprint, used: WindowCount, limit: u64) -> Self {
        Self::new(print, used.count, limit, Kind::Fixed, used.ends, 0)
    }

    pub(super) fn sliding(
        print: Fingerprint,
        counts: SlidingCounts,
        length: Micros,
        limit: u64,
    ) -> Self {
        let until = counts.start.after(length).after(length);
        let used = counts.current.max(counts.previous);
        let usage = u64::from(Usage::of(used, limit).0) * USAGE_MAX / u64::from(Usage::ALL.0);
        Self::new(
            print,
            counts.current,
            counts.previous,
            Kind::Sliding,
            until,
            usage,
        )
    }

    pub(super) const fn bucket(print: Fingerprint, rest: BucketState, gcra: &Gcra) -> Self {
        Self::new(print, rest.part, gcra.span.get(), Kind::Bucket, rest.at, 0)
    }

    /// A bucket of which nothing was left at that moment.
    pub(super) const fn empty_bucket(print: Fingerprint, gcra: &Gcra, moment: Micros) -> Self {
        Self::bucket(
            print,
            BucketState {
                at: moment.after(gcra.span),
                part: 0,
            },
            gcra,
        )
    }

    pub(super) const fn side(print: Fingerprint, index: u32, until: Micros, usage: Usage) -> Self {
        Self::new(print, index as u64, usage.0 as u64, Kind::Side, until, 0)
    }

    const fn first(&self) -> u64 {
        self.first & WORD_MAX
    }

    const fn second(&self) -> u64 {
        self.second & WORD_MAX
    }

    pub(super) const fn kind(&self) -> Kind {
        match self.meta & ((1 << KIND_BITS) - 1) {
            1 => Kind::Fixed,
            2 => Kind::Sliding,
            3 => Kind::Bucket,
            4 => Kind::Side,
            _ => Kind::Vacant,
        }
    }

    pub(super) const fn is_vacant(&self) -> bool {
        self.meta == 0
    }

    /// The moment from which on forgetting the counter changes nothing. A bucket's moment may have
    /// a part, so it counts only once it is past.
    pub(super) const fn until(&self) -> Micros {
        Micros::new(self.meta >> (KIND_BITS + USAGE_BITS))
    }

    pub(super) fn is_spent(&self, now: Micros) -> bool {
        self.until() < now
    }

    pub(super) const fn as_fixed(&self) -> WindowCount {
        WindowCount {
            count: self.first(),
            ends: self.until(),
        }
    }

    pub(super) const fn as_sliding(&self, length: Micros) -> SlidingCounts {
        let start = self.until().since(length).since(length);
        SlidingCounts {
            current: self.first(),
            previous: self.second(),
            start,
        }
    }

    pub(super) const fn as_bucket(&self) -> BucketState {
        BucketState {
            at: self.until(),
            part: self.first(),
        }
    }

    /// How long the bucket took to work off a whole one by the numbers it was last used with.
    pub(super) const fn span(&self) -> Micros {
        Micros::new(self.second())
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "it was a u32 when it was packed"
    )]
    pub(super) const fn as_side(&self) -> u32 {
        self.first() as u32
    }

    /// The same counter, its state kept elsewhere.
    pub(super) const fn moved_to(self, index: u32) -> Self {
        Self {
            first: word(index as u64, (self.first >> WORD_BITS) as u32),
            ..self
        }
    }

    /// How much of the budget is used at `now`, without knowing the limit.
    pub(super) fn usage(&self, now: Micros) -> Usage {
        match self.kind() {
            Kind::Vacant => Usage(0),
            _ if self.is_spent(now) => Usage(0),
            Kind::Fixed => Usage::of(self.first(), self.second()),
            Kind::Bucket => Usage::of(self.until().since(now).get(), self.second()),
            Kind::Side => Usage(u32::try_from(self.second()).unwrap_or(u32::MAX)),
            Kind::Sliding => {
                let usage = self.meta >> KIND_BITS & USAGE_MAX;
                Usage::of(usage, USAGE_MAX)
            }
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

/// A word of 54 bits with ten bits of the fingerprint above. Everything kept here fits: counts and
/// limits are at most 2^53, and so are moments and their parts; what does not is kept as large as
/// it can be.
#[inline(always)]
const fn word(value: u64, tag: u32) -> u64 {
    let value = if value > WORD_MAX { WORD_MAX } else { value };
    (tag as u64) << WORD_BITS | value
}

const _: () = assert!(
    size_of::<Slot>() == 32,
    "the size of a counter is a promise"
);
