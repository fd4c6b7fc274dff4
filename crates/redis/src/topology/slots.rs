//! Which of a cluster's 16,384 slots a key is in.

/// How many slots there are.
pub(crate) const SLOTS: u16 = 16_384;

/// CRC-16 (XMODEM) of every byte.
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

/// The slot of a key: that of what stands between its first `{` and the next `}`, if that is not
/// empty, else of all.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter()
            .position(|byte| *byte == b'}')
            .filter(|length| *length > 0)
            .map(|length| &rest[..length])
    });
    let crc = tag.unwrap_or(key).iter().fold(0u16, |crc, byte| {
        let [high, _] = crc.to_be_bytes();
        crc << 8 ^ CRC[usize::from(high ^ byte)]
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::slot_of;

    /// As `CLUSTER KEYSLOT` says; the check value of this CRC for 123456789 is 0x31C3.
    #[test]
    fn slots_are_those_of_the_server() {
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn the_tag_decides() {
        assert_eq!(slot_of(b"tollgate:{user:42}api|s60"), slot_of(b"user:42"));
        assert_eq!(slot_of(b"a{}b"), slot_of(b"a{}b"));
        assert_ne!(slot_of(b"a{}b"), slot_of(b""));
        assert_eq!(slot_of(b"{a}}b"), slot_of(b"a"));
        assert_eq!(slot_of(b"{{a}b"), slot_of(b"{a"));
    }
}
