//! How the table knows a key without keeping it.

use std::hash::{BuildHasher, Hasher};

use ahash::RandomState;

use crate::key::Key;

/// 84 bits that stand for a key, of a 128-bit hash: what a slot has room for. A million keys in
/// place and a trillion that come and go make it likely to one in ten million that two ever meet.
/// The hash depends on secrets drawn at the start of each process (and kept in snapshots), so
/// nobody outside can look for two keys that do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Fingerprint {
    /// Places the key in its shard's table, by its upper bits.
    pub(crate) low: u64,
    /// Twenty bits more, the lowest of which choose the shard.
    pub(crate) high: u32,
}

impl Fingerprint {
    const HIGH_BITS: u32 = 20;

    #[inline(always)]
    const fn new(high: u64, low: u64) -> Self {
        Self {
            low,
            high: (high >> (u64::BITS - Self::HIGH_BITS)) as u32,
        }
    }
}

/// The secrets, two independent hashes' worth.
pub(super) type Seeds = [u64; 8];

pub(crate) struct Fingerprinter {
    seeds: Seeds,
    high: RandomState,
    low: RandomState,
}

impl Fingerprinter {
    /// With secrets from the operating system.
    pub(crate) fn random() -> Self {
        let source = std::hash::RandomState::new();
        Self::from_seeds(std::array::from_fn(|index| source.hash_one(index)))
    }

    pub(super) fn from_seeds(seeds: Seeds) -> Self {
        let half = |at: usize| {
            RandomState::with_seeds(seeds[at], seeds[at + 1], seeds[at + 2], seeds[at + 3])
        };
        Self {
            seeds,
            high: half(0),
            low: half(4),
        }
    }

    pub(super) const fn seeds(&self) -> &Seeds {
        &self.seeds
    }

    #[inline(always)]
    pub(crate) fn of(&self, key: &Key<'_>) -> Fingerprint {
        let (mut high, mut low) = (self.high.build_hasher(), self.low.build_hasher());
        key.feed(&mut high);
        key.feed(&mut low);
        Fingerprint::new(high.finish(), low.finish())
    }

    /// A fingerprint of fixed bytes, which tells whether two builds hash alike.
    pub(super) fn probe(&self) -> Fingerprint {
        let half =
            |secrets: &RandomState| secrets.hash_one("the same hash gives the same fingerprint");
        Fingerprint::new(half(&self.high), half(&self.low))
    }
}
