//! A digest that is the same in every process.

/// The 128-bit FNV-1a hash of `bytes`. It tells different inputs apart, but not those of an
/// attacker: only names of limits and snapshots are hashed with it.
pub(crate) fn digest(bytes: &[u8]) -> u128 {
    const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0100_0000_0000_0000_0000_013b;

    bytes.iter().fold(OFFSET_BASIS, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(PRIME)
    })
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
