//! The common prefix of all keys of a limit.

use std::fmt;
use std::num::NonZeroU32;

use super::digest::digest;
use crate::algorithm::QuotaShape;
use crate::consistency::Consistency;
use crate::name::LimitName;

/// A limit's name and the shape of its state. Because the shape is included, a limit whose
/// algorithm or window changes starts new counters instead of misreading the old ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyPrefix {
    /// A digest of the encoded prefix, for hashing.
    pub(super) digest: u128,
    pub(super) name: LimitName,
    pub(super) shape: QuotaShape,
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
        let prefix = Self {
            digest: 0,
            name,
            shape,
            consistency: Consistency::default(),
            replicas: NonZeroU32::MIN,
        };
        Self {
            digest: digest(&prefix.to_bytes()),
            ..prefix
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

    /// A digest of the encoded prefix: different for limits with different names or shapes.
    pub(crate) const fn digest(&self) -> u128 {
        self.digest
    }

    /// The limit's name.
    pub(crate) const fn name(&self) -> &LimitName {
        &self.name
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
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let window = self.shape.window.to_le_bytes();
        [&[self.shape.tag], &window[..], self.name.as_bytes(), &[0]].concat()
    }
}
