//! Keyed hashing of key parts, so that secrets and personal data never reach a store.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::hash::KeyHash;

/// Hashes key parts with a secret: HMAC-SHA-256, truncated to 128 bits.
///
/// Replicas that share a store must use the same secret. Without the secret, a stored hash cannot
/// be traced to its value, not even by trying candidates.
///
/// ```
/// use tollgate::KeyHasher;
///
/// let hasher = KeyHasher::new(b"a secret from the environment, 16 bytes or more")?;
/// let part = hasher.hash(b"api-key-7f3a");          // usable as a key, or as part of one
/// assert_eq!(part, hasher.hash(b"api-key-7f3a"));
/// # Ok::<(), tollgate::SecretError>(())
/// ```
#[derive(Clone)]
pub struct KeyHasher {
    mac: Hmac<Sha256>,
}

/// The error of [`KeyHasher::new`]: the secret is too short to be safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "hash secret has {found} bytes; must be at least {SECRET_MIN}: \
     create one with `openssl rand -hex 32`"
)]
pub struct SecretError {
    found: usize,
}

/// The minimum length of a secret, in bytes.
const SECRET_MIN: usize = 16;

impl KeyHasher {
    /// Creates a hasher. The secret must have at least 16 bytes.
    pub fn new(secret: &[u8]) -> Result<Self, SecretError> {
        let error = SecretError {
            found: secret.len(),
        };
        if secret.len() < SECRET_MIN {
            return Err(error);
        }

        Hmac::new_from_slice(secret)
            .map(|mac| Self { mac })
            .map_err(|_| error)
    }

    /// Hashes a value.
    pub fn hash(&self, value: &[u8]) -> KeyHash {
        let digest = self.mac.clone().chain_update(value).finalize().into_bytes();
        let mut truncated = [0; 16];
        truncated.copy_from_slice(&digest[..16]);
        KeyHash(truncated)
    }
}

/// Omits the secret.
impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(..)")
    }
}
