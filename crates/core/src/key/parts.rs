//! What can be a key, and how its parts are written.

use std::net::IpAddr;

use super::{Encoded, EncodedKey, KEY_MAX, KeyError, KeyHash, SHORT_MAX};

const TEXT: u8 = 1;
const BYTES: u8 = 2;
const NUMBER: u8 = 3;
const IPV4: u8 = 4;
const IPV6: u8 = 5;
const HASHED: u8 = 6;

/// Something that names a subject: text, a number, an address, a hash, or a tuple of these.
///
/// ```
/// use std::net::Ipv4Addr;
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
///
/// let login = Limiter::in_memory([Limit::sliding_log("login", 5, Duration::from_secs(900))]);
/// let decision = login.check("login", (Ipv4Addr::new(203, 0, 113, 7), "ann@example.com")).now_or_never()?;
/// assert_eq!(decision.remaining(), 4);
/// # Ok::<(), tollgate::Error>(())
/// ```
///
/// The unit `()` has no parts: one counter for everyone. An empty text is refused, because a
/// missing value must not silently do the same.
pub trait ToKey {
    /// Writes the parts in order.
    fn write(&self, parts: &mut KeyParts);

    /// The text, for a key that is one text and nothing else: then it need not be copied. Whoever
    /// implements this must write the same single text in [`write`](Self::write).
    #[inline]
    fn as_text(&self) -> Option<&str> {
        None
    }

    /// All parts in canonical form, for a key that is written down already: then they need not be
    /// written again.
    #[doc(hidden)]
    #[inline]
    fn as_encoded(&self) -> Option<&EncodedKey> {
        None
    }
}

/// Receives the parts of a key.
#[derive(Debug)]
pub struct KeyParts {
    /// What is short stays here: most keys, for which copying a few bytes to a known place is all
    /// there is to do.
    short: [u8; SHORT_MAX],
    /// All of it, once it is not short any more.
    long: Vec<u8>,
    found: usize,
    empty: bool,
}

impl Default for KeyParts {
    #[inline]
    fn default() -> Self {
        Self {
            short: [0; SHORT_MAX],
            long: Vec::new(),
            found: 0,
            empty: false,
        }
    }
}

/// The longest text that is a key by itself: it has a tag and its length in front.
pub(super) const TEXT_MAX: usize = KEY_MAX - 3;

/// The text, if the encoded parts are one text and nothing else: then that is what the key is,
/// however it was given.
pub(super) fn single_text(parts: &[u8]) -> Option<&str> {
    let ([TEXT, low, high], text) = parts.split_first_chunk()? else {
        return None;
    };
    let is_all = text.len() == usize::from(u16::from_le_bytes([*low, *high]));
    std::str::from_utf8(text).ok().filter(|_| is_all)
}

/// One part of a key, read back from its canonical bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPart<'k> {
    /// A text.
    Text(&'k str),
    /// Bytes.
    Bytes(&'k [u8]),
    /// A number.
    Number(u64),
    /// An address.
    Address(IpAddr),
    /// A value that is known only by its keyed hash.
    Hash(KeyHash),
}

/// True when bytes are whole parts, none of them empty.
pub(super) fn are_parts(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let Some((_, after)) = next_part(bytes) else {
            return false;
        };
        bytes = after;
    }
    true
}

/// The first part of canonical bytes, and what follows it. Nothing when they do not begin with a
/// whole part, or with an empty one.
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

/// A text as a key's only part, in canonical form.
pub(super) fn encode_text(text: &str) -> Encoded {
    let mut parts = KeyParts::default();
    parts.text(text);
    parts.encoded()
}

impl KeyParts {
    pub(super) fn encode(key: &(impl ToKey + ?Sized)) -> Result<Encoded, KeyError> {
        Self::written(|parts| key.write(parts))
    }

    pub(super) fn written(write: impl FnOnce(&mut Self)) -> Result<Encoded, KeyError> {
        let mut parts = Self::default();
        write(&mut parts);
        if parts.empty {
            Err(KeyError::Empty)
        } else if parts.found > KEY_MAX {
            Err(KeyError::TooLong { found: parts.found })
        } else {
            Ok(parts.encoded())
        }
    }

    /// What was written, if it is not too long.
    #[inline]
    fn encoded(self) -> Encoded {
        if self.found <= SHORT_MAX {
            Encoded::from_buf_and_len(self.short, self.found)
        } else {
            Encoded::from_vec(self.long)
        }
    }

    /// Adds a text.
    #[inline]
    pub fn text(&mut self, text: &str) {
        self.varying(TEXT, text.as_bytes());
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.varying(BYTES, bytes);
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.push(NUMBER, &number.to_le_bytes());
    }

    /// Adds an address. An IPv4 address mapped into IPv6 is that IPv4 address.
    #[inline]
    pub fn address(&mut self, address: IpAddr) {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                // Most keys are just this, so it is one piece.
                let [a, b, c, d] = v4.octets();
                self.put(&[IPV4, a, b, c, d]);
            }
            IpAddr::V6(v6) => self.push(IPV6, &v6.octets()),
        }
    }

    /// Adds a value that is known only by its keyed hash.
    pub fn hashed(&mut self, hashed: KeyHash) {
        self.push(HASHED, hashed.as_bytes());
    }

    /// Adds parts that are already in canonical form.
    pub(super) fn canonical(&mut self, parts: &[u8]) {
        self.put(parts);
    }

    /// Makes the key unusable, because a part of it is missing.
    pub fn missing(&mut self) {
        self.empty = true;
    }

    #[inline]
    fn varying(&mut self, tag: u8, part: &[u8]) {
        self.empty |= part.is_empty();
        // A part over 64 KiB makes the key too long whatever these two bytes say.
        let [low, high] = u16::try_from(part.len()).unwrap_or(u16::MAX).to_le_bytes();
        self.put(&[tag, low, high]);
        self.put(part);
    }

    #[inline]
    fn push(&mut self, tag: u8, part: &[u8]) {
        self.put(&[tag]);
        self.put(part);
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let from = self.found;
        self.found = from.saturating_add(bytes.len());
        match self.short.get_mut(from..self.found) {
            Some(short) => short.copy_from_slice(bytes),
            None => self.put_long(from, bytes),
        }
    }

    #[cold]
    fn put_long(&mut self, from: usize, bytes: &[u8]) {
        if self.found > KEY_MAX {
            return;
        }
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

/// `None` refuses the check: a missing part is never a shared counter.
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
