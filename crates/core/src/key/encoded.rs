//! Keys written down: to be sent away and brought back, or made where the caller's values do not
//! last.

use std::fmt;

use super::parts::{self, KeyPart, KeyParts, ToKey};
use super::{Encoded, KEY_MAX, KeyError, Parts};

/// A key in its canonical bytes. It names the same counter as what it was made of.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{EncodedKey, Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
/// let key = EncodedKey::new(&("acme", 7_u64))?;
/// assert_eq!(limiter.check("api", &key).now_or_never()?.remaining(), 99);
///
/// let back = EncodedKey::from_bytes(key.as_bytes())?;
/// assert_eq!(limiter.check("api", back).now_or_never()?.remaining(), 98);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EncodedKey {
    bytes: Encoded,
}

impl EncodedKey {
    /// The bytes of a key, or why it cannot name a counter.
    pub fn new(key: &(impl ToKey + ?Sized)) -> Result<Self, KeyError> {
        KeyParts::encode(key).map(|bytes| Self { bytes })
    }

    /// The bytes of the key that a function writes, for callers whose parts are known only at run
    /// time.
    pub fn from_writer(write: impl FnOnce(&mut KeyParts)) -> Result<Self, KeyError> {
        KeyParts::written(write).map(|bytes| Self { bytes })
    }

    /// The key that has these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyDecodeError> {
        let is_key = bytes.len() <= KEY_MAX && parts::are_parts(bytes);
        if is_key {
            Ok(Self {
                bytes: bytes.into(),
            })
        } else {
            Err(KeyDecodeError)
        }
    }

    /// The parts, as they are.
    #[inline]
    pub(crate) fn as_parts(&self) -> Parts<'_> {
        parts::single_text(&self.bytes).map_or(Parts::Encoded(&self.bytes), Parts::Text)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it was made of, in order, for whoever shows keys to people.
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
        parts.canonical(&self.bytes);
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

/// Keys name people. They do not show in logs by accident.
impl fmt::Debug for EncodedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncodedKey(..)")
    }
}

/// Bytes that no key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no key's; they must be what `EncodedKey::as_bytes` gave")]
pub struct KeyDecodeError;
