//! A whole key: what identifies a counter.

use std::fmt;
use std::num::NonZeroU32;

use super::parts::{Parts, encode_text};
use super::prefix::KeyPrefix;
use crate::algorithm::QuotaShape;
use crate::consistency::Consistency;

/// Identifies one counter: a limit and the parts of a key, both borrowed. A key that is a single
/// text is never copied; other parts are encoded into a buffer on the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    prefix: &'a KeyPrefix,
    parts: Parts<'a>,
}

impl<'a> Key<'a> {
    #[inline]
    pub(crate) const fn new(prefix: &'a KeyPrefix, parts: Parts<'a>) -> Self {
        Self { prefix, parts }
    }

    /// The encoded key: different for different limits and different parts.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.prefix.to_bytes();
        match self.parts {
            Parts::Text(text) => bytes.extend_from_slice(&encode_text(text)),
            Parts::Encoded(parts) => bytes.extend_from_slice(parts),
        }
        bytes
    }

    /// The name of the limit that the counter belongs to.
    pub fn limit(&self) -> &'a str {
        &self.prefix.name
    }

    /// The algorithm and window of the limit, which determine the meaning of the counter's state.
    pub const fn shape(&self) -> QuotaShape {
        self.prefix.shape
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

    /// What a hash of the key consists of: its parts, and a number to be combined with their hash,
    /// which tells limits apart, and the two forms of parts.
    #[inline(always)]
    pub(crate) const fn hash_input(&self) -> (&'a [u8], u128) {
        match self.parts {
            Parts::Text(text) => (text.as_bytes(), self.prefix.digest),
            Parts::Encoded(parts) => (parts, !self.prefix.digest),
        }
    }
}

/// Omits the content, because keys can identify people and must not appear in logs.
impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}
