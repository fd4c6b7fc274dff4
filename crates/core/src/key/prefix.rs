//! The common prefix of all keys of a limit.

use std::fmt;
use std::num::NonZeroU32;

use sha2::{Digest, Sha256};

use crate::algorithm::QuotaShape;
use crate::consistency::Consistency;
use crate::name::{LimitName, NAME_MAX};

/// The length of an encoded shape: a tag and eight bytes of window.
const SHAPE_LEN: usize = 9;

/// A limit's name and the shape of its state. Because the shape is included, a limit whose
/// algorithm or window changes starts new counters instead of misreading the old ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyPrefix {
    len: usize,
    bytes: [u8; NAME_MAX + SHAPE_LEN + 1],
    digest: u128,
    shape: QuotaShape,
    /// How replicas share the counters. Not part of the encoded prefix.
    consistency: Consistency,
    /// How many replicas share the counters. Not part of the encoded prefix.
    replicas: NonZeroU32,
}

/// Omits the fields, because every type that contains a prefix shows them itself.
impl fmt::Debug for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPrefix(..)")
    }
}

impl KeyPrefix {
    pub(crate) fn new(name: LimitName, shape: QuotaShape) -> Self {
        let window = shape.window.to_le_bytes();

        let mut bytes = [0; NAME_MAX + SHAPE_LEN + 1];
        let mut len = 0;
        for part in [&[shape.tag], &window[..], name.as_bytes(), &[0]] {
            bytes[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }

        let mut digest = [0; 16];
        digest.copy_from_slice(&Sha256::digest(&bytes[..len])[..16]);

        Self {
            len,
            bytes,
            digest: u128::from_le_bytes(digest),
            shape,
            consistency: Consistency::default(),
            replicas: NonZeroU32::MIN,
        }
    }

    /// The same prefix with another consistency.
    pub(crate) const fn with_consistency(self, consistency: Consistency) -> Self {
        Self {
            consistency,
            ..self
        }
    }

    /// The same prefix for counters that this many replicas share.
    pub(crate) const fn with_replicas(self, replicas: NonZeroU32) -> Self {
        Self { replicas, ..self }
    }

    #[inline]
    pub(crate) const fn consistency(&self) -> Consistency {
        self.consistency
    }

    pub(crate) const fn replicas(&self) -> NonZeroU32 {
        self.replicas
    }

    /// The encoded prefix: a tag, eight bytes of window, the name and a zero byte. No name contains
    /// a zero byte, so the end of the prefix is unambiguous.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(crate) fn name(&self) -> &str {
        let name = &self.bytes[SHAPE_LEN..self.len - 1];
        std::str::from_utf8(name).expect("a limit's name is ASCII")
    }

    pub(crate) const fn shape(&self) -> QuotaShape {
        self.shape
    }

    /// A digest of the encoded prefix, for hashing.
    #[inline]
    pub(crate) const fn digest(&self) -> u128 {
        self.digest
    }
}
