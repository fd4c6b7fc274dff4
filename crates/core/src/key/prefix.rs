//! What every key of a limit begins with.

use std::fmt;
use std::num::NonZeroU32;

use sha2::{Digest, Sha256};

use crate::algorithm::Shape;
use crate::consistency::Consistency;
use crate::name::{LimitName, NAME_MAX};

/// A tag and eight bytes of window.
const SHAPE_LEN: usize = 9;

/// A limit's name and the shape of its state. A limit whose algorithm or window changes starts new
/// counters instead of reading the old ones as something they are not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyPrefix {
    len: usize,
    bytes: [u8; NAME_MAX + SHAPE_LEN + 1],
    digest: u128,
    shape: Shape,
    /// Who shares the counters, and how. No part of what the key is called.
    consistency: Consistency,
    /// How many processes do.
    replicas: NonZeroU32,
}

/// What it is made of stands beside it wherever it is shown.
impl fmt::Debug for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPrefix(..)")
    }
}

impl KeyPrefix {
    pub(crate) fn new(name: LimitName, shape: Shape) -> Self {
        let window = shape.window.to_le_bytes();
        let mut bytes = [0; NAME_MAX + SHAPE_LEN + 1];
        let mut len = 0;
        for part in [&[shape.tag], &window[..], name.as_bytes(), &[0]] {
            bytes[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        let mut digest = [0; 16];
        digest.copy_from_slice(&Sha256::digest(&bytes[..len])[..16]);
        let (consistency, replicas) = (Consistency::default(), NonZeroU32::MIN);
        Self {
            len,
            bytes,
            digest: u128::from_le_bytes(digest),
            shape,
            consistency,
            replicas,
        }
    }

    /// The same for counters that are shared in this way.
    pub(crate) const fn with_consistency(self, consistency: Consistency) -> Self {
        Self {
            consistency,
            ..self
        }
    }

    /// The same for counters that so many processes share.
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

    /// A tag, eight bytes of window, the name and a zero, which no name contains: unambiguous
    /// whatever follows.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(crate) fn name(&self) -> &str {
        let name = &self.bytes[SHAPE_LEN..self.len - 1];
        std::str::from_utf8(name).expect("a limit's name is letters, digits and signs")
    }

    pub(crate) const fn shape(&self) -> Shape {
        self.shape
    }

    /// Stands for the bytes where only equality matters.
    #[inline]
    pub(crate) const fn digest(&self) -> u128 {
        self.digest
    }
}
