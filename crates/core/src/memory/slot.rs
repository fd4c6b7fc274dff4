//! One counter, in forty bytes.

use super::fingerprint::Fingerprint;
use crate::algorithm::{Counts, Gcra, Rest, Used};
use crate::time::Micros;

/// How much of a budget is used, from 0 (none) to [`Usage::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Usage(pub(super) u32);

impl Usage {
    pub(super) const ALL: Self = Self(1 << 20);
    /// From here on a key counts as an offender, which is forgotten only when there is nothing else to forget.
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
    /// A sliding window: current and previous count. `until` is two lengths after the window's start.
    Sliding,
    /// A bucket: part of a microsecond, span. `until` is its moment of rest.
    Bucket,
    /// A log or leases: where the shard keeps them.
    Side,
}

/// A counter's state, packed: two words by kind, and a word with the moment from which on it is as good as none (53 bits),
/// the usage where the words do not tell it (8 bits) and the kind (3 bits).
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) print: Fingerprint,
    first: u64,
    second: u64,
    meta: u64,
}

const KIND_BITS: u32 = 3;
const USAGE_BITS: u32 = 8;
const USAGE_MAX: u64 = (1 << USAGE_BITS) - 1;

impl Slot {
    pub(super) const VACANT: Self = Self::new(Fingerprint { high: 0, low: 0 }, 0, 0, Kind::Vacant, Micros::ZERO, 0);

    const fn new(print: Fingerprint, first: u64, second: u64, kind: Kind, until: Micros, usage: u64) -> Self {
        let until = if until.get() > Micros::MAX.get() { Micros::MAX.get() } else { until.get() };
        Self { print, first, second, meta: until << (KIND_BITS + USAGE_BITS) | usage << KIND_BITS | kind as u64 }
    }

    pub(super) const fn fixed(print: Fingerprint, used: Used, limit: u64) -> Self {
        Self::new(print, used.count, limit, Kind::Fixed, used.ends, 0)
    }

    pub(super) fn sliding(print: Fingerprint, counts: Counts, length: Micros, limit: u64) -> Self {
        let until = counts.start.after(length).after(length);
        let used = counts.current.max(counts.previous);
        let usage = u64::from(Usage::of(used, limit).0) * USAGE_MAX / u64::from(Usage::ALL.0);
        Self::new(print, counts.current, counts.previous, Kind::Sliding, until, usage)
    }

    pub(super) const fn bucket(print: Fingerprint, rest: Rest, gcra: &Gcra) -> Self {
        Self::new(print, rest.part, gcra.span.get(), Kind::Bucket, rest.at, 0)
    }

    pub(super) const fn side(print: Fingerprint, index: u32, until: Micros, usage: Usage) -> Self {
        Self::new(print, index as u64, usage.0 as u64, Kind::Side, until, 0)
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

    /// The moment from which on forgetting the counter changes nothing. A bucket's moment may have a part, so it counts
    /// only once it is past.
    pub(super) const fn until(&self) -> Micros {
        Micros::new(self.meta >> (KIND_BITS + USAGE_BITS))
    }

    pub(super) fn is_spent(&self, now: Micros) -> bool {
        self.until() < now
    }

    pub(super) const fn as_fixed(&self) -> Used {
        Used { count: self.first, ends: self.until() }
    }

    pub(super) const fn as_sliding(&self, length: Micros) -> Counts {
        let start = self.until().since(length).since(length);
        Counts { current: self.first, previous: self.second, start }
    }

    pub(super) const fn as_bucket(&self) -> Rest {
        Rest { at: self.until(), part: self.first }
    }

    #[expect(clippy::cast_possible_truncation, reason = "it was a u32 when it was packed")]
    pub(super) const fn as_side(&self) -> u32 {
        self.first as u32
    }

    /// The same counter, its state kept elsewhere.
    pub(super) const fn moved_to(self, index: u32) -> Self {
        Self { first: index as u64, ..self }
    }

    /// How much of the budget is used at `now`, without knowing the limit.
    pub(super) fn usage(&self, now: Micros) -> Usage {
        match self.kind() {
            Kind::Vacant => Usage(0),
            _ if self.is_spent(now) => Usage(0),
            Kind::Fixed => Usage::of(self.first, self.second),
            Kind::Bucket => Usage::of(self.until().since(now).get(), self.second),
            Kind::Side => Usage(u32::try_from(self.second).unwrap_or(u32::MAX)),
            Kind::Sliding => {
                let usage = self.meta >> KIND_BITS & USAGE_MAX;
                Usage::of(usage, USAGE_MAX)
            }
        }
    }

    pub(super) const fn to_words(self) -> [u64; 5] {
        [self.print.high, self.print.low, self.first, self.second, self.meta]
    }

    pub(super) const fn from_words(words: [u64; 5]) -> Self {
        let [high, low, first, second, meta] = words;
        Self { print: Fingerprint { high, low }, first, second, meta }
    }
}

const _: () = assert!(size_of::<Slot>() == 40, "the size of a counter is a promise");
