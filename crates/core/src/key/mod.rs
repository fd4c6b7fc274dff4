//! Keys: the canonical bytes that name one counter.
//!
//! A key is the limit's name and shape followed by its parts, each with a tag for its type and, where it varies, its
//! length. Two different inputs therefore never give the same bytes: `("a", "bc")` is not `("ab", "c")`, the text `"7"` is not
//! the number `7`, and the address `::ffff:10.0.0.1` is `10.0.0.1` because it is the same host.

mod hashed;
mod parts;

use smallvec::SmallVec;

use crate::algorithm::Shape;
use crate::name::{LimitName, NAME_MAX};

pub use hashed::{Hashed, Hasher, ShortSecret};
pub use parts::{KeyParts, ToKey};

/// The longest key, in canonical bytes.
pub const KEY_MAX: usize = 1_024;

/// The canonical bytes of one counter. Short keys live in place, so that building one allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(SmallVec<[u8; 64]>);

impl Key {
    /// The key of one counter of a limit, or why the parts cannot name one.
    #[inline]
    pub(crate) fn new(prefix: &KeyPrefix, parts: &(impl ToKey + ?Sized)) -> Result<Self, KeyError> {
        let mut bytes = SmallVec::new();
        bytes.extend_from_slice(prefix.as_bytes());
        let mut writer = KeyParts::new(bytes);
        parts.write(&mut writer);
        writer.finish().map(Self)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What every key of a limit begins with: its name and the shape of its state. A limit whose algorithm or window changes
/// starts new counters instead of reading the old ones as something they are not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPrefix {
    len: u8,
    bytes: [u8; NAME_MAX + 10],
}

impl KeyPrefix {
    pub(crate) fn new(name: LimitName, shape: Shape) -> Self {
        let mut bytes = [0; NAME_MAX + 10];
        let name = name.as_bytes();
        let window = shape.window.to_le_bytes();
        // The window only as long as it needs to be; its length makes the bytes unambiguous.
        let window = &window[..window.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)];
        let mut len = 0;
        for part in [&[shape.tag | 0x80, window.len() as u8][..], window, name, &[0]] {
            bytes[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        Self { len: len as u8, bytes }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Why parts cannot name a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A part is empty, so everyone without a value would share one counter.
    #[error("a key part is empty; leave the check out, or use () to count everyone together on purpose")]
    Empty,
    /// The key is too long.
    #[error("the key has {found} canonical bytes; at most {KEY_MAX} are kept: hash long parts with a Hasher")]
    TooLong {
        /// Its length.
        found: usize,
    },
}

#[cfg(test)]
mod tests;
