//! Keyed hashes of key parts, so that secrets and personal data never reach a store.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Hashes key parts with a secret: HMAC-SHA-256, the first 128 bits.
///
/// Replicas that share a store must share the secret. Without it nobody can tell what a stored key
/// stands for, not even by trying candidates.
///
/// ```
/// use tollgate::KeyHasher;
///
/// let hasher = KeyHasher::new(b"a secret from the environment, 16 bytes or more")?;
/// let part = hasher.hash(b"api-key-7f3a");          // a key part like any other
/// assert_eq!(part, hasher.hash(b"api-key-7f3a"));
/// # Ok::<(), tollgate::SecretError>(())
/// ```
#[derive(Clone)]
pub struct KeyHasher {
    mac: Hmac<Sha256>,
}

/// A key part known only by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 16]);

/// The secret is too short to keep anything secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the hash secret has {found} bytes; use at least {SECRET_MIN}, such as from `openssl rand -hex 32`"
)]
pub struct SecretError {
    found: usize,
}

const SECRET_MIN: usize = 16;

impl KeyHasher {
    /// A hasher with this secret of at least 16 bytes.
    pub fn new(secret: &[u8]) -> Result<Self, SecretError> {
        let short = SecretError {
            found: secret.len(),
        };
        if secret.len() < SECRET_MIN {
            return Err(short);
        }
        Hmac::new_from_slice(secret)
            .map(|mac| Self { mac })
            .map_err(|_| short)
    }

    /// The hash of a value.
    pub fn hash(&self, value: &[u8]) -> KeyHash {
        let digest = self.mac.clone().chain_update(value).finalize().into_bytes();
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        KeyHash(short)
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(..)")
    }
}

impl KeyHash {
    /// A hash that was made before.
    pub(super) const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The hash itself.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Thirty-two hexadecimal digits: how a hashed key is shown.
impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
