//! How the table knows a key without keeping it.

use std::hash::{BuildHasher, Hasher};

use ahash::RandomState;

use crate::key::Key;

/// 128 bits that stand for a key. They depend on secrets drawn at the start of each process (and kept in snapshots), so
/// nobody outside can look for two keys that meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Fingerprint {
    pub(super) high: u64,
    pub(super) low: u64,
}

/// The secrets, two independent hashes' worth.
pub(super) type Seeds = [u64; 8];

#[derive(Debug)]
pub(super) struct Fingerprinter {
    seeds: Seeds,
    high: RandomState,
    low: RandomState,
}

impl Fingerprinter {
    /// With secrets from the operating system.
    pub(super) fn random() -> Self {
        let source = std::hash::RandomState::new();
        Self::from_seeds(std::array::from_fn(|index| source.hash_one(index)))
    }

    pub(super) fn from_seeds(seeds: Seeds) -> Self {
        let [a, b, c, d, e, f, g, h] = seeds;
        Self { seeds, high: RandomState::with_seeds(a, b, c, d), low: RandomState::with_seeds(e, f, g, h) }
    }

    pub(super) const fn seeds(&self) -> &Seeds {
        &self.seeds
    }

    #[inline(always)]
    pub(super) fn of(&self, key: &Key<'_>) -> Fingerprint {
        let (mut high, mut low) = (self.high.build_hasher(), self.low.build_hasher());
        key.feed(&mut high);
        key.feed(&mut low);
        Fingerprint { high: high.finish(), low: low.finish() }
    }

    /// A fingerprint of fixed bytes, which tells whether two builds hash alike.
    pub(super) fn probe(&self) -> Fingerprint {
        let half = |secrets: &RandomState| secrets.hash_one("the same hash gives the same fingerprint");
        Fingerprint { high: half(&self.high), low: half(&self.low) }
    }
}
