//! Encoded keys: to store or send a key, or to keep it longer than the values it was made from.

use std::fmt;

use super::parts::{KEY_MAX, KeyBuffer, KeyError, KeyPart, KeyParts, Parts, take_part};

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
    /// Encodes the parts that a function writes, for callers that know the parts of a key only at
    /// run time.
    #[inline]
    pub fn from_writer(write: impl FnOnce(&mut KeyParts)) -> Result<Self, KeyError> {
        KeyParts::encode(write).map(|bytes| Self { bytes })
    }

    /// Decodes the bytes that [`as_bytes`](Self::as_bytes) returned.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyDecodeError> {
        let mut rest = bytes;
        while take_part(&mut rest).is_some() {}

        let is_valid = rest.is_empty() && bytes.len() <= KEY_MAX;
        let key = is_valid.then(|| Self {
            bytes: bytes.into(),
        });
        key.ok_or(KeyDecodeError)
    }

    /// Borrows the parts.
    #[inline]
    pub(crate) fn as_parts(&self) -> Parts<'_> {
        Parts::from_encoded(&self.bytes)
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
        std::iter::from_fn(move || take_part(&mut rest))
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
