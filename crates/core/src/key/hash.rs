//! The keyed hash of a key part.

use std::fmt;

/// The keyed hash of a key part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(pub(super) [u8; 16]);

impl KeyHash {
    /// The 16 bytes of the hash.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Formats the hash as 32 hexadecimal digits.
impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
