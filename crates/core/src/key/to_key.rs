//! The types that can be keys.

use std::net::IpAddr;

use super::encoded::EncodedKey;
use super::hash::KeyHash;
use super::parts::{KeyBuffer, KeyError, KeyParts, Parts, TEXT_MAX};

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

    /// The encoded parts, or why they are no key, if the key is encoded already: then it need not
    /// be encoded again.
    #[doc(hidden)]
    #[inline]
    fn as_encoded(&self) -> Option<Result<&[u8], KeyError>> {
        None
    }
}

impl<'a> Parts<'a> {
    /// The parts of a key, or why the key is invalid. Parts that need encoding go into `buffer`.
    #[inline(always)]
    pub(crate) fn from_key<K: ToKey + ?Sized>(
        key: &'a K,
        buffer: &'a mut KeyBuffer,
    ) -> Result<Self, KeyError> {
        let Some(text) = key.as_text() else {
            let parts = if let Some(parts) = key.as_encoded() {
                parts?
            } else {
                *buffer = KeyParts::encode(|parts| key.write(parts))?;
                buffer
            };
            return Ok(Self::from_encoded(parts));
        };

        match text.len() {
            0 => Err(KeyError::Empty),
            length if length > TEXT_MAX => Err(KeyError::TooLong { found: length }),
            _ => Ok(Self::Text(text)),
        }
    }
}

impl EncodedKey {
    /// Encodes a key, or returns why it is invalid.
    pub fn new(key: &(impl ToKey + ?Sized)) -> Result<Self, KeyError> {
        Self::from_writer(|parts| key.write(parts))
    }
}

impl ToKey for EncodedKey {
    fn write(&self, parts: &mut KeyParts) {
        parts.encoded(self.as_bytes());
    }

    #[inline]
    fn as_encoded(&self) -> Option<Result<&[u8], KeyError>> {
        Some(Ok(self.as_bytes()))
    }
}

/// The parts written so far.
impl ToKey for KeyParts {
    fn write(&self, parts: &mut KeyParts) {
        parts.append_parts(self);
    }

    #[inline]
    fn as_encoded(&self) -> Option<Result<&[u8], KeyError>> {
        Some(self.as_bytes())
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
    fn as_encoded(&self) -> Option<Result<&[u8], KeyError>> {
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
