//! Keys: what names one counter.
//!
//! A key is the limit's name and shape followed by its parts, each with a tag for its type and,
//! where it varies, its length. Two different inputs therefore never give the same bytes: `("a",
//! "bc")` is not `("ab", "c")`, the text `"7"` is not the number `7`, and the address
//! `::ffff:10.0.0.1` is `10.0.0.1` because it is the same host.

mod encoded;
mod hash;
mod parts;
mod prefix;

use std::fmt;
use std::num::NonZeroU32;

use smallvec::SmallVec;

use crate::algorithm::Shape;
use crate::consistency::Consistency;

pub use encoded::{EncodedKey, KeyDecodeError};
pub use hash::{KeyHash, KeyHasher, SecretError};
pub use parts::{KeyPart, KeyParts, ToKey};
pub(crate) use prefix::KeyPrefix;

/// The longest key, in canonical bytes after the limit's own.
pub const KEY_MAX: usize = 1_024;

/// The name of one counter, borrowed from whoever asks: building one copies a single text never,
/// and other parts only into a buffer on the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    prefix: &'a KeyPrefix,
    parts: Parts<'a>,
}

/// The parts of a key. One input always takes the same of the two forms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts<'a> {
    /// A single text, the usual case, as it is.
    Text(&'a str),
    /// Anything else, in canonical form.
    Encoded(&'a [u8]),
}

/// Where parts are kept when they must outlive the caller's key.
#[derive(Clone)]
pub(crate) enum PartsBuf {
    Text(Box<str>),
    Encoded(Encoded),
}

/// Parts in canonical form, in place when they are short.
pub(crate) type Encoded = SmallVec<[u8; SHORT_MAX]>;
/// The longest that is short.
const SHORT_MAX: usize = 48;

impl<'a> Key<'a> {
    #[inline]
    pub(crate) const fn new(prefix: &'a KeyPrefix, parts: Parts<'a>) -> Self {
        Self { prefix, parts }
    }

    /// The canonical bytes: different for different limits and different parts.
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

    /// What gives the counter its meaning, beside the limit's name.
    pub const fn shape(&self) -> Shape {
        self.prefix.shape()
    }

    /// Writes the parts alone, which say who or what is limited: the same for every limit that is
    /// asked about the same parts, and different for different parts. A single text stays readable.
    pub fn write_parts(&self, into: &mut Vec<u8>) {
        let (mark, parts) = match self.parts {
            Parts::Text(text) => (b'=', text.as_bytes()),
            Parts::Encoded(parts) => (b'#', parts),
        };
        into.push(mark);
        into.extend_from_slice(parts);
    }

    /// Who shares the counter, and how. It is no part of what the counter is called.
    #[inline]
    pub const fn consistency(&self) -> Consistency {
        self.prefix.consistency()
    }

    /// How many processes are said to share the counter.
    pub const fn replicas(&self) -> NonZeroU32 {
        self.prefix.replicas()
    }

    /// True when the counter is this process's own, whatever the store.
    #[inline]
    pub(crate) const fn is_local(&self) -> bool {
        matches!(self.consistency(), Consistency::Local)
    }

    pub(crate) const fn prefix(&self) -> &'a KeyPrefix {
        self.prefix
    }

    pub(crate) const fn parts(&self) -> Parts<'a> {
        self.parts
    }

    /// Feeds a hash with two writes, of fixed and of stated length, so that different keys feed
    /// different things.
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

/// Keys name people. They do not show in logs by accident.
impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl fmt::Debug for PartsBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartsBuf(..)")
    }
}

impl<'a> Parts<'a> {
    /// The parts of a key, or why they cannot name a counter. What must be written down goes into
    /// `buffer`.
    #[inline(always)]
    pub(crate) fn of<K: ToKey + ?Sized>(
        key: &'a K,
        buffer: &'a mut Encoded,
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

    /// A copy that stays.
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

/// Why parts cannot name a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A part is empty, so everyone without a value would share one counter.
    #[error(
        "a key part is empty; leave the check out, or use () to count everyone together on purpose"
    )]
    Empty,
    /// The key is too long.
    #[error(
        "the key has {found} bytes; at most {KEY_MAX} are kept, with 1 to 3 more for each part: hash long parts with a KeyHasher"
    )]
    TooLong {
        /// Its length.
        found: usize,
    },
}

#[cfg(test)]
mod tests;
