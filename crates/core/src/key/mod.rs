//! Keys: they identify counters.
//!
//! A key consists of the limit's name and shape, followed by its parts. Each part has a tag for its
//! type and, if its length varies, a length. Different inputs therefore never encode to the same
//! bytes: `("a", "bc")` differs from `("ab", "c")`, and the text `"7"` from the number `7`. Only
//! the IPv4-mapped address `::ffff:10.0.0.1` equals `10.0.0.1`, because it is the same host.

mod encoded;
mod hash;
mod parts;
mod prefix;

use std::fmt;
use std::num::NonZeroU32;

use smallvec::SmallVec;

use crate::algorithm::QuotaShape;
use crate::consistency::Consistency;

pub use encoded::{EncodedKey, KeyDecodeError};
pub use hash::{KeyHash, KeyHasher, SecretError};
pub use parts::{KeyPart, KeyParts, ToKey};
pub(crate) use prefix::KeyPrefix;

/// The maximum length of a key's encoded parts, in bytes.
pub const KEY_MAX: usize = 1_024;

/// Identifies one counter: a limit and the parts of a key, both borrowed. A key that is a single
/// text is never copied; other parts are encoded into a buffer on the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    prefix: &'a KeyPrefix,
    parts: Parts<'a>,
}

/// The parts of a key. The same parts always take the same of the two forms, whatever type they
/// came from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts<'a> {
    /// A single text, not encoded. This is the usual case.
    Text(&'a str),
    /// Any other parts, encoded.
    Encoded(&'a [u8]),
}

/// Owned [`Parts`].
#[derive(Clone)]
pub(crate) enum PartsBuf {
    Text(Box<str>),
    Encoded(KeyBuffer),
}

/// A buffer for encoded parts, inline up to [`SHORT_MAX`] bytes.
pub(crate) type KeyBuffer = SmallVec<[u8; SHORT_MAX]>;
/// The maximum length of encoded parts that are stored inline.
const SHORT_MAX: usize = 48;

impl<'a> Key<'a> {
    #[inline]
    pub(crate) const fn new(prefix: &'a KeyPrefix, parts: Parts<'a>) -> Self {
        Self { prefix, parts }
    }

    /// The encoded key: different for different limits and different parts.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.prefix.as_bytes().to_vec();
        match self.parts {
            Parts::Text(text) => bytes.extend_from_slice(&parts::encode_text(text)),
            Parts::Encoded(parts) => bytes.extend_from_slice(parts),
        }
        bytes
    }

    /// The name of the limit that the counter belongs to.
    pub fn limit(&self) -> &'a str {
        self.prefix.name()
    }

    /// The algorithm and window of the limit, which determine the meaning of the counter's state.
    pub const fn shape(&self) -> QuotaShape {
        self.prefix.shape()
    }

    /// Appends the parts without the limit: equal for the same parts under different limits, and
    /// different for different parts. A single text stays readable.
    pub fn write_parts(&self, into: &mut Vec<u8>) {
        let (form, parts) = match self.parts {
            Parts::Text(text) => (b'=', text.as_bytes()),
            Parts::Encoded(parts) => (b'#', parts),
        };
        into.push(form);
        into.extend_from_slice(parts);
    }

    /// How replicas share the counter. It is not part of the encoded key.
    #[inline]
    pub const fn consistency(&self) -> Consistency {
        self.prefix.consistency()
    }

    /// How many replicas are expected to share the counter.
    pub const fn replicas(&self) -> NonZeroU32 {
        self.prefix.replicas()
    }

    /// True when the counter belongs to this process alone, whatever the store is.
    #[inline]
    pub(crate) const fn is_local(&self) -> bool {
        matches!(self.consistency(), Consistency::Local)
    }

    pub(crate) const fn parts(&self) -> Parts<'a> {
        self.parts
    }

    /// Hashes the key in two writes. The first has a fixed length and the second ends the input, so
    /// different keys never write the same input.
    #[inline(always)]
    pub(crate) fn feed(&self, hasher: &mut impl std::hash::Hasher) {
        match self.parts {
            Parts::Text(text) => {
                hasher.write_u128(self.prefix.digest());
                hasher.write(text.as_bytes());
            }
            Parts::Encoded(parts) => {
                hasher.write_u128(!self.prefix.digest());
                hasher.write(parts);
            }
        }
    }
}

/// Omits the content, because keys can identify people and must not appear in logs.
impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Omits the content, like [`Key`].
impl fmt::Debug for PartsBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartsBuf(..)")
    }
}

impl<'a> Parts<'a> {
    /// The parts of a key, or why the key is invalid. Parts that need encoding go into `buffer`.
    #[inline(always)]
    pub(crate) fn from_key<K: ToKey + ?Sized>(
        key: &'a K,
        buffer: &'a mut KeyBuffer,
    ) -> Result<Self, KeyError> {
        let Some(text) = key.as_text() else {
            if let Some(key) = key.as_encoded() {
                return Ok(Self::Encoded(key.as_bytes()));
            }
            *buffer = KeyParts::encode(key)?;
            return Ok(parts::single_text(buffer).map_or(Self::Encoded(buffer), Self::Text));
        };

        match text.len() {
            0 => Err(KeyError::Empty),
            length if length > parts::TEXT_MAX => Err(KeyError::TooLong { found: length }),
            _ => Ok(Self::Text(text)),
        }
    }

    /// Copies the parts into owned ones.
    pub(crate) fn to_buf(self) -> PartsBuf {
        match self {
            Self::Text(text) => PartsBuf::Text(text.into()),
            Self::Encoded(parts) => PartsBuf::Encoded(parts.into()),
        }
    }
}

impl PartsBuf {
    pub(crate) fn as_parts(&self) -> Parts<'_> {
        match self {
            Self::Text(text) => Parts::Text(text),
            Self::Encoded(parts) => Parts::Encoded(parts),
        }
    }
}

/// Why a key is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A part is empty or missing. If it were accepted, all clients without a value would share one
    /// counter.
    #[error("empty key part; skip the limit, or use the key () to count all clients together")]
    Empty,
    /// The key is too long.
    #[error(
        "key has {found} bytes; must be at most {KEY_MAX} \
         (each part adds 1 to 3 bytes); hash long parts with a KeyHasher"
    )]
    TooLong {
        /// The length in bytes: of the text if the key is a single text, else of all encoded parts.
        found: usize,
    },
}

#[cfg(test)]
mod tests;
