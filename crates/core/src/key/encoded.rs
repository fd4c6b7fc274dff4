//! Encoded keys: to store or send a key, or to keep it longer than the values it was made from.

use std::fmt;

use super::parts::{self, KeyPart, KeyParts, ToKey};
use super::{KEY_MAX, KeyBuffer, KeyError, Parts};

/// An encoded key. It identifies the same counter as the value it was made from.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{EncodedKey, Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
/// let key = EncodedKey::new(&("acme", 7_u64))?;
/// assert_eq!(limiter.check("api", &key).try_now()?.remaining(), 99);
///
/// let decoded = EncodedKey::from_bytes(key.as_bytes())?;
/// assert_eq!(limiter.check("api", decoded).try_now()?.remaining(), 98);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EncodedKey {
    bytes: KeyBuffer,
}

impl EncodedKey {
    /// Encodes a key, or returns why it is invalid.
    pub fn new(key: &(impl ToKey + ?Sized)) -> Result<Self, KeyError> {
        KeyParts::encode(key).map(|bytes| Self { bytes })
    }

    /// Encodes the parts that a function writes, for callers that know the parts of a key only at
    /// run time.
    pub fn from_writer(write: impl FnOnce(&mut KeyParts)) -> Result<Self, KeyError> {
        KeyParts::encode_with(write).map(|bytes| Self { bytes })
    }

    /// Decodes the bytes that [`as_bytes`](Self::as_bytes) returned.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyDecodeError> {
        let is_valid = bytes.len() <= KEY_MAX && parts::are_parts(bytes);
        if is_valid {
            Ok(Self {
                bytes: bytes.into(),
            })
        } else {
            Err(KeyDecodeError)
        }
    }

    /// Borrows the parts.
    #[inline]
    pub(crate) fn as_parts(&self) -> Parts<'_> {
        parts::single_text(&self.bytes).map_or(Parts::Encoded(&self.bytes), Parts::Text)
    }

    /// The encoded parts.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Decodes the key's parts, in order. Use it to display a key.
    ///
    /// ```
    /// use tollgate::{EncodedKey, KeyPart};
    ///
    /// let key = EncodedKey::new(&("acme", 7_u64))?;
    /// assert_eq!(key.parts().collect::<Vec<_>>(), [KeyPart::Text("acme"), KeyPart::Number(7)]);
    /// # Ok::<(), tollgate::KeyError>(())
    /// ```
    pub fn parts(&self) -> impl Iterator<Item = KeyPart<'_>> {
        let mut rest: &[u8] = &self.bytes;
        std::iter::from_fn(move || {
            let (part, after) = parts::next_part(rest)?;
            rest = after;
            Some(part)
        })
    }
}

impl ToKey for EncodedKey {
    fn write(&self, parts: &mut KeyParts) {
        parts.encoded(&self.bytes);
    }

    #[inline]
    fn as_text(&self) -> Option<&str> {
        parts::single_text(&self.bytes)
    }

    #[inline]
    fn as_encoded(&self) -> Option<&Self> {
        Some(self)
    }
}

/// Omits the content, because keys can identify people and must not appear in logs.
impl fmt::Debug for EncodedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncodedKey(..)")
    }
}

/// The error of [`EncodedKey::from_bytes`]: the bytes are not an encoded key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid encoded key; expected the bytes of `EncodedKey::as_bytes`")]
pub struct KeyDecodeError;
