//! Keys: they identify counters.
//!
//! A key consists of the limit's name and shape, followed by its parts. Each part has a tag for its
//! type and, if its length varies, a length. Different inputs therefore never encode to the same
//! bytes: `("a", "bc")` differs from `("ab", "c")`, and the text `"7"` from the number `7`. Only
//! the IPv4-mapped address `::ffff:10.0.0.1` equals `10.0.0.1`, because it is the same host.

mod counter_key;
mod digest;
mod encoded;
mod fingerprint;
mod hash;
#[cfg(feature = "hashing")]
mod hasher;
mod parts;
mod prefix;
mod to_key;

pub use counter_key::Key;
pub(crate) use digest::{Digest, digest};
pub use encoded::{EncodedKey, KeyDecodeError};
pub(crate) use fingerprint::{Fingerprint, Fingerprinter};
pub use hash::KeyHash;
#[cfg(feature = "hashing")]
pub use hasher::{KeyHasher, SecretError};
pub use parts::{KEY_MAX, KeyError, KeyPart, KeyParts};
pub(crate) use parts::{KeyBuffer, Parts, PartsBuf};
pub(crate) use prefix::KeyPrefix;
pub use to_key::ToKey;

#[cfg(test)]
mod tests;
