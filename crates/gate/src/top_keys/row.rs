//! How much one key has used.

use std::hash::Hasher;

use tollgate::EncodedKey;

/// How much a key has used of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUsage {
    /// The key.
    pub key: EncodedKey,
    /// Units: an upper bound.
    pub units: u64,
    /// How much too high `units` may be.
    pub error: u64,
    /// The requests that were counted for this key: a lower bound, exact while `error` is 0.
    pub requests: u64,
}

impl KeyUsage {
    /// The units that are certain.
    pub const fn certain_units(&self) -> u64 {
        self.units.saturating_sub(self.error)
    }
}

/// What a key takes besides its row, in bytes.
pub(super) fn long_bytes(key: &EncodedKey) -> usize {
    /// The longest key that is inside its row.
    const INLINE_MAX: usize = 48;
    let length = key.as_bytes().len();
    if length > INLINE_MAX { length } else { 0 }
}

/// The hash of a number that is a hash already.
#[derive(Debug, Default)]
pub(super) struct HashOfHash(u64);

impl Hasher for HashOfHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
