//! The parts of a key and their encoding.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smallvec::SmallVec;

use super::hash::KeyHash;

/// The maximum length of a key's encoded parts, in bytes.
pub const KEY_MAX: usize = 1_024;

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

// The tags of the encoding. Stored keys contain them, so they must not change.
const TEXT: u8 = 1;
const BYTES: u8 = 2;
const NUMBER: u8 = 3;
const IPV4: u8 = 4;
const IPV6: u8 = 5;
const HASHED: u8 = 6;

/// Receives and encodes the parts of a key; see [`ToKey::write`](super::ToKey::write).
#[derive(Debug)]
pub struct KeyParts {
    /// The encoded parts while they fit. Most keys do, so writing them is a copy of a few bytes to
    /// a fixed location.
    short: [u8; SHORT_MAX],
    /// The encoded parts once they no longer fit into `short`.
    long: Vec<u8>,
    /// The length of all encoded parts, also when that is more than is kept.
    length: usize,
    /// True when a part is empty or missing.
    has_empty_part: bool,
}

impl Default for KeyParts {
    #[inline]
    fn default() -> Self {
        Self {
            short: [0; SHORT_MAX],
            long: Vec::new(),
            length: 0,
            has_empty_part: false,
        }
    }
}

/// The maximum length of a text that is a whole key: encoded, a tag and two bytes of length precede
/// it.
pub(super) const TEXT_MAX: usize = KEY_MAX - 3;

/// The text, if the encoded parts are a single text.
#[inline(always)]
fn single_text(parts: &[u8]) -> Option<&str> {
    let ([TEXT, low, high], text) = parts.split_first_chunk()? else {
        return None;
    };
    let is_only_part = text.len() == usize::from(u16::from_le_bytes([*low, *high]));
    std::str::from_utf8(text).ok().filter(|_| is_only_part)
}

/// One part of a key, decoded; see [`EncodedKey::parts`](crate::EncodedKey::parts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPart<'k> {
    /// Text.
    Text(&'k str),
    /// Bytes.
    Bytes(&'k [u8]),
    /// A number.
    Number(u64),
    /// An IP address.
    Address(IpAddr),
    /// The keyed hash of a value.
    Hash(KeyHash),
}

/// Decodes and removes the first part. Returns `None` and removes nothing when there is none, or
/// when it is incomplete, empty or otherwise invalid.
pub(super) fn take_part<'k>(bytes: &mut &'k [u8]) -> Option<KeyPart<'k>> {
    let (tag, rest) = bytes.split_first()?;
    let (length, rest) = match (*tag, rest) {
        (TEXT | BYTES, [low, high, rest @ ..]) => {
            (usize::from(u16::from_le_bytes([*low, *high])), rest)
        }
        (NUMBER, _) => (8, rest),
        (IPV4, _) => (4, rest),
        (IPV6 | HASHED, _) => (16, rest),
        _ => return None,
    };

    let (part, after) = rest
        .split_at_checked(length)
        .filter(|(part, _)| !part.is_empty())?;

    let part = match *tag {
        TEXT => KeyPart::Text(std::str::from_utf8(part).ok()?),
        BYTES => KeyPart::Bytes(part),
        NUMBER => KeyPart::Number(u64::from_le_bytes(part.try_into().ok()?)),
        IPV4 => KeyPart::Address(<[u8; 4]>::try_from(part).ok()?.into()),
        IPV6 => KeyPart::Address(<[u8; 16]>::try_from(part).ok()?.into()),
        _ => KeyPart::Hash(KeyHash(part.try_into().ok()?)),
    };
    *bytes = after;
    Some(part)
}

/// Encodes a text as the only part of a key.
pub(super) fn encode_text(text: &str) -> KeyBuffer {
    let mut parts = KeyParts::default();
    parts.text(text);
    parts.into_buffer()
}

impl KeyParts {
    /// The parts that `write` adds, encoded, or why the key is invalid.
    #[inline]
    pub(super) fn encode(write: impl FnOnce(&mut Self)) -> Result<KeyBuffer, KeyError> {
        let mut parts = Self::default();
        write(&mut parts);
        parts.validate()?;
        Ok(parts.into_buffer())
    }

    /// Why the parts written so far are no key, if they are none.
    #[inline]
    const fn validate(&self) -> Result<(), KeyError> {
        if self.has_empty_part {
            Err(KeyError::Empty)
        } else if self.length > KEY_MAX {
            Err(KeyError::TooLong { found: self.length })
        } else {
            Ok(())
        }
    }

    /// The parts written so far, encoded, or why they are no key.
    #[inline]
    pub(super) fn as_bytes(&self) -> Result<&[u8], KeyError> {
        // The first bytes are in `short` for as long as all of them are.
        match self.short.get(..self.length) {
            Some(short) if !self.has_empty_part => Ok(short),
            _ => self.validate().map(|()| &*self.long),
        }
    }

    /// The encoded parts, provided that they are not too long.
    #[inline]
    fn into_buffer(self) -> KeyBuffer {
        if self.length <= SHORT_MAX {
            KeyBuffer::from_buf_and_len(self.short, self.length)
        } else {
            KeyBuffer::from_vec(self.long)
        }
    }

    /// Adds text.
    #[inline]
    pub fn text(&mut self, text: &str) {
        self.push_with_length(TEXT, text.as_bytes());
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.push_with_length(BYTES, bytes);
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.push(NUMBER, &number.to_le_bytes());
    }

    /// Adds an IP address. An IPv4-mapped IPv6 address is encoded as the IPv4 address.
    #[inline(always)]
    pub fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(v4) => self.ipv4(v4),
            IpAddr::V6(v6) => self.ipv6(v6),
        }
    }

    #[inline(always)]
    fn ipv4(&mut self, address: Ipv4Addr) {
        let [a, b, c, d] = address.octets();
        let part = [IPV4, a, b, c, d];
        // Many keys are a single IPv4 address, so its length is known to the compiler.
        match self
            .short
            .get_mut(self.length..)
            .and_then(<[u8]>::first_chunk_mut)
        {
            Some(place) => {
                *place = part;
                self.length += part.len();
            }
            None => self.append(&part),
        }
    }

    #[inline(never)]
    fn ipv6(&mut self, address: Ipv6Addr) {
        match address.to_ipv4_mapped() {
            Some(v4) => self.ipv4(v4),
            None => self.push(IPV6, &address.octets()),
        }
    }

    /// Adds the keyed hash of a value.
    pub fn hashed(&mut self, hashed: KeyHash) {
        self.push(HASHED, hashed.as_bytes());
    }

    /// Adds parts that are encoded already.
    pub(super) fn encoded(&mut self, parts: &[u8]) {
        self.append(parts);
    }

    /// Adds all parts of another key.
    pub(super) fn append_parts(&mut self, other: &Self) {
        match other.as_bytes() {
            Ok(parts) => self.encoded(parts),
            Err(KeyError::Empty) => self.missing(),
            // Only the length matters of a key that is too long.
            Err(KeyError::TooLong { found }) => self.length = self.length.saturating_add(found),
        }
    }

    /// Records that a part is missing, which makes the key invalid.
    pub fn missing(&mut self) {
        self.has_empty_part = true;
    }

    #[inline]
    fn push_with_length(&mut self, tag: u8, part: &[u8]) {
        self.has_empty_part |= part.is_empty();
        // A part over 64 KiB makes the key too long anyway, so its length may be capped here.
        let [low, high] = u16::try_from(part.len()).unwrap_or(u16::MAX).to_le_bytes();
        self.append(&[tag, low, high]);
        self.append(part);
    }

    #[inline]
    fn push(&mut self, tag: u8, part: &[u8]) {
        self.append(&[tag]);
        self.append(part);
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        let from = self.length;
        self.length = from.saturating_add(bytes.len());
        match self.short.get_mut(from..self.length) {
            Some(short) => short.copy_from_slice(bytes),
            None => self.append_long(from, bytes),
        }
    }

    #[cold]
    fn append_long(&mut self, from: usize, bytes: &[u8]) {
        // The key is invalid, so only its length matters.
        if self.length > KEY_MAX {
            return;
        }
        // The first bytes that do not fit move everything over.
        if from <= SHORT_MAX {
            self.long.extend_from_slice(&self.short[..from]);
        }
        self.long.extend_from_slice(bytes);
    }
}

/// Omits the content, because keys can identify people and must not appear in logs.
impl fmt::Debug for PartsBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartsBuf(..)")
    }
}

impl<'a> Parts<'a> {
    /// The parts in encoded bytes.
    #[inline]
    pub(super) fn from_encoded(parts: &'a [u8]) -> Self {
        single_text(parts).map_or(Self::Encoded(parts), Self::Text)
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
