//! The hash slot of a key in a cluster.

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The CRC-16 (XMODEM) of each byte value.
const CRC: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                crc << 1 ^ 0x1021
            };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

/// The slot of a key. If the key contains a hash tag, which is non-empty text between the first `{`
/// and the next `}`, only the tag is hashed.
pub(crate) fn hash_slot(key: &[u8]) -> u16 {
    let mut parts = key.splitn(2, |byte| *byte == b'{').skip(1);
    let tag = parts.next().and_then(|rest| {
        let length = rest.iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &rest[..length])
    });

    let crc = tag.unwrap_or(key).iter().fold(0u16, |crc, byte| {
        let [high, _] = crc.to_be_bytes();
        crc << 8 ^ CRC[usize::from(high ^ byte)]
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::hash_slot;

    /// The results of `CLUSTER KEYSLOT`. 0x31C3 is the check value of this CRC.
    #[test]
    fn slots_equal_those_of_a_server() {
        assert_eq!(hash_slot(b"123456789"), 0x31c3);
        assert_eq!(hash_slot(b"foo"), 12_182);
        assert_eq!(hash_slot(b""), 0);
    }

    #[test]
    fn only_the_hash_tag_is_hashed() {
        assert_eq!(
            hash_slot(b"tollgate:{user:42}api|s60"),
            hash_slot(b"user:42")
        );
        assert_eq!(hash_slot(b"a{}b"), hash_slot(b"a{}b"));
        assert_ne!(hash_slot(b"a{}b"), hash_slot(b""));
        assert_eq!(hash_slot(b"{a}}b"), hash_slot(b"a"));
        assert_eq!(hash_slot(b"{{a}b"), hash_slot(b"{a"));
    }
}
