//! How the table recognizes a key without storing it.

use std::hash::{BuildHasher, Hasher};

use ahash::RandomState;

use super::counter_key::Key;

/// 84 bits of a 128-bit hash of a key, which is what a slot has room for.
///
/// With a million keys stored and a trillion keys that come and go, the probability that any two
/// collide is about one in ten million. The hash depends on random seeds chosen when the process
/// starts (and stored in snapshots), so an outsider cannot search for two keys that collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Fingerprint {
    /// Its upper bits determine the position in the table of a shard.
    pub(crate) low: u64,
    /// Twenty more bits; the lowest of them select the shard.
    pub(crate) high: u32,
}

impl Fingerprint {
    const HIGH_BITS: u32 = 20;
    /// Any constant with many bits.
    const LOCKOUT_BITS: u64 = 0xd1b5_4a32_d192_ed03;

    /// The fingerprint under which the lockout of a key is stored: in the same shard, elsewhere in
    /// its table.
    pub(crate) const fn for_lockout(self) -> Self {
        Self {
            low: self.low ^ Self::LOCKOUT_BITS,
            high: self.high,
        }
    }

    #[inline(always)]
    const fn new(high: u64, low: u64) -> Self {
        Self {
            low,
            high: (high >> (u64::BITS - Self::HIGH_BITS)) as u32,
        }
    }
}

/// The secret seeds of two independent hashes, four words each.
pub(crate) type HashSeeds = [u64; 8];

/// Computes the fingerprints of keys.
pub(crate) struct Fingerprinter {
    seeds: HashSeeds,
    high: RandomState,
    low: RandomState,
}

impl Fingerprinter {
    /// A fingerprinter with seeds from the operating system.
    pub(crate) fn with_random_seeds() -> Self {
        let source = std::hash::RandomState::new();
        Self::from_seeds(std::array::from_fn(|index| source.hash_one(index)))
    }

    pub(crate) fn from_seeds(seeds: HashSeeds) -> Self {
        let half = |at: usize| {
            RandomState::with_seeds(seeds[at], seeds[at + 1], seeds[at + 2], seeds[at + 3])
        };
        Self {
            seeds,
            high: half(0),
            low: half(4),
        }
    }

    pub(crate) const fn seeds(&self) -> &HashSeeds {
        &self.seeds
    }

    /// The fingerprint of a key.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "each half takes one of two words"
    )]
    pub(crate) fn fingerprint(&self, key: &Key<'_>) -> Fingerprint {
        let (parts, digest) = key.hash_input();
        let half = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            hasher.write(parts);
            hasher.finish()
        };
        // Two hashes differ by the difference of two digests as rarely as they are equal, so the
        // digest need not be hashed again for each key.
        Fingerprint::new(
            half(&self.high) ^ (digest >> 64) as u64,
            half(&self.low) ^ digest as u64,
        )
    }

    /// The fingerprint of fixed bytes, which differs between builds with different hash functions.
    pub(crate) fn probe(&self) -> Fingerprint {
        // The text is part of the snapshot format: another one makes every snapshot unreadable.
        let half = |state: &RandomState| state.hash_one("the same hash gives the same fingerprint");
        Fingerprint::new(half(&self.high), half(&self.low))
    }
}
