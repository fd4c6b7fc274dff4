//! The types that can be keys, and the encoding of their parts.

use std::net::IpAddr;

use super::{EncodedKey, KEY_MAX, KeyBuffer, KeyError, KeyHash, SHORT_MAX};

// The tags of the encoding. Stored keys contain them, so they must not change.
const TEXT: u8 = 1;
const BYTES: u8 = 2;
const NUMBER: u8 = 3;
const IPV4: u8 = 4;
const IPV6: u8 = 5;
const HASHED: u8 = 6;

/// A type that can be a key: text, a number, an address, a hash, or a tuple of these.
///
/// ```
/// use std::net::Ipv4Addr;
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
///
/// let login = Limiter::in_memory([Limit::sliding_log("login", 5, Duration::from_secs(900))])?;
/// let key = (Ipv4Addr::new(203, 0, 113, 7), "ann@example.com");
/// let decision = login.check("login", key).try_now()?;
/// assert_eq!(decision.remaining(), 4);
/// # Ok::<(), tollgate::Error>(())
/// ```
///
/// The unit `()` has no parts: all clients share one counter. Empty text is an error, because a
/// missing value must not silently have the same effect.
pub trait ToKey {
    /// Writes the key's parts in order.
    fn write(&self, parts: &mut KeyParts);

    /// The text, if the key is a single text: then it need not be copied. An implementation must
    /// write the same single text in [`write`](Self::write).
    #[inline]
    fn as_text(&self) -> Option<&str> {
        None
    }

    /// The encoded key, if the key is encoded already: then it need not be encoded again.
    #[doc(hidden)]
    #[inline]
    fn as_encoded(&self) -> Option<&EncodedKey> {
        None
    }
}

/// Receives and encodes the parts of a key; see [`ToKey::write`].
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
pub(super) fn single_text(parts: &[u8]) -> Option<&str> {
    let ([TEXT, low, high], text) = parts.split_first_chunk()? else {
        return None;
    };
    let is_only_part = text.len() == usize::from(u16::from_le_bytes([*low, *high]));
    std::str::from_utf8(text).ok().filter(|_| is_only_part)
}

/// One part of a key, decoded; see [`EncodedKey::parts`].
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

/// True when `bytes` are complete encoded parts, none of them empty.
pub(super) fn are_parts(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let Some((_, after)) = next_part(bytes) else {
            return false;
        };
        bytes = after;
    }
    true
}

/// Decodes the first part, and returns it with the remaining bytes. `None` when it is incomplete,
/// empty or otherwise invalid.
pub(super) fn next_part(bytes: &[u8]) -> Option<(KeyPart<'_>, &[u8])> {
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
        _ => KeyPart::Hash(KeyHash::from_bytes(part.try_into().ok()?)),
    };
    Some((part, after))
}

/// Encodes a text as the only part of a key.
pub(super) fn encode_text(text: &str) -> KeyBuffer {
    let mut parts = KeyParts::default();
    parts.text(text);
    parts.into_buffer()
}

impl KeyParts {
    pub(super) fn encode(key: &(impl ToKey + ?Sized)) -> Result<KeyBuffer, KeyError> {
        Self::encode_with(|parts| key.write(parts))
    }

    pub(super) fn encode_with(write: impl FnOnce(&mut Self)) -> Result<KeyBuffer, KeyError> {
        let mut parts = Self::default();
        write(&mut parts);

        let found = parts.length;
        if parts.has_empty_part {
            Err(KeyError::Empty)
        } else if found > KEY_MAX {
            Err(KeyError::TooLong { found })
        } else {
            Ok(parts.into_buffer())
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
    #[inline]
    pub fn address(&mut self, address: IpAddr) {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                // Many keys are a single IPv4 address, so it is copied in one piece.
                let [a, b, c, d] = v4.octets();
                self.append(&[IPV4, a, b, c, d]);
            }
            IpAddr::V6(v6) => self.push(IPV6, &v6.octets()),
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

macro_rules! to_key {
    ($($kind:ty => |$value:ident, $parts:ident| $write:expr;)*) => {$(
        impl ToKey for $kind {
            #[inline]
            fn write(&self, $parts: &mut KeyParts) {
                let $value = self;
                $write;
            }
        }
    )*};
}
to_key! {
    [u8] => |bytes, parts| parts.bytes(bytes);
    Vec<u8> => |bytes, parts| parts.bytes(bytes);
    u64 => |number, parts| parts.number(*number);
    u32 => |number, parts| parts.number(u64::from(*number));
    IpAddr => |address, parts| parts.address(*address);
    std::net::Ipv4Addr => |address, parts| parts.address(IpAddr::V4(*address));
    std::net::Ipv6Addr => |address, parts| parts.address(IpAddr::V6(*address));
    KeyHash => |hashed, parts| parts.hashed(*hashed);
}

impl ToKey for str {
    fn write(&self, parts: &mut KeyParts) {
        parts.text(self);
    }

    #[inline]
    fn as_text(&self) -> Option<&str> {
        Some(self)
    }
}

impl ToKey for String {
    fn write(&self, parts: &mut KeyParts) {
        parts.text(self);
    }

    #[inline]
    fn as_text(&self) -> Option<&str> {
        Some(self)
    }
}

impl ToKey for () {
    fn write(&self, _: &mut KeyParts) {}
}

impl<T: ToKey + ?Sized> ToKey for &T {
    #[inline]
    fn write(&self, parts: &mut KeyParts) {
        (**self).write(parts);
    }

    #[inline]
    fn as_text(&self) -> Option<&str> {
        (**self).as_text()
    }

    #[inline]
    fn as_encoded(&self) -> Option<&EncodedKey> {
        (**self).as_encoded()
    }
}

/// `None` makes the key invalid: clients without a value must not share a counter.
impl<T: ToKey> ToKey for Option<T> {
    fn write(&self, parts: &mut KeyParts) {
        match self {
            Some(part) => part.write(parts),
            None => parts.missing(),
        }
    }
}

macro_rules! tuple_to_key {
    ($($name:ident),*) => {
        impl<$($name: ToKey),*> ToKey for ($($name,)*) {
            fn write(&self, parts: &mut KeyParts) {
                #[expect(non_snake_case, reason = "the type parameters name the fields")]
                let ($($name,)*) = self;
                $($name.write(parts);)*
            }
        }
    };
}
tuple_to_key!(A);
tuple_to_key!(A, B);
tuple_to_key!(A, B, C);
tuple_to_key!(A, B, C, D);
