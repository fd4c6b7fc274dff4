//! A digest that is the same in every process.

/// A 128-bit FNV-1a hash. It tells different inputs apart, but not those of an attacker: only names
/// of limits and snapshots are hashed with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest(u128);

impl Digest {
    const PRIME: u128 = 0x0100_0000_0000_0000_0000_013b;

    /// The hash of no bytes.
    pub(crate) const EMPTY: Self = Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);

    /// The hash of what was hashed before, followed by `bytes`.
    #[must_use]
    pub(crate) fn followed_by(self, bytes: &[u8]) -> Self {
        let hash = bytes.iter().fold(self.0, |hash, byte| {
            (hash ^ u128::from(*byte)).wrapping_mul(Self::PRIME)
        });
        Self(hash)
    }

    pub(crate) const fn get(self) -> u128 {
        self.0
    }
}

/// The hash of `bytes`.
pub(crate) fn digest(bytes: &[u8]) -> u128 {
    Digest::EMPTY.followed_by(bytes).get()
}

#[cfg(test)]
mod tests {
    use super::digest;

    /// From the authors' test suite.
    #[test]
    fn the_digest_is_fnv_1a() {
        assert_eq!(digest(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(digest(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(digest(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }
}
