//! The name of a limit: short, printable, and cheap to copy.

use std::fmt;
use std::ops::Deref;

use crate::limit_error::LimitError;
pub use crate::limit_error::NAME_MAX;

/// The name of a limit, as it appears in decisions, metrics and keys.
///
/// The bytes are stored inline and copied into every decision. A reference-counted string would
/// make threads that decide on the same limit contend for its reference count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitName {
    len: u8,
    bytes: [u8; NAME_MAX],
}

impl LimitName {
    /// Validates a name: 1 to 47 letters, digits, `-`, `_`, `.`, `:` or `/`.
    pub fn new(name: &str) -> Result<Self, LimitError> {
        let is_valid = |c: &char| c.is_ascii_alphanumeric() || "-_.:/".contains(*c);

        if name.is_empty() {
            return Err(LimitError::EmptyName);
        }
        if name.len() > NAME_MAX {
            return Err(LimitError::LongName {
                found: name.chars().take(80).collect(),
                bytes: name.len(),
            });
        }
        if let Some(found) = name.chars().find(|c| !is_valid(c)) {
            return Err(LimitError::NameCharacter {
                name: name.to_owned(),
                found,
            });
        }

        let mut bytes = [0; NAME_MAX];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Self {
            // NAME_MAX is below 256, so the length always fits.
            len: u8::try_from(name.len()).unwrap_or(u8::MAX),
            bytes,
        })
    }

    /// The name as a string.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The name as bytes. Unlike [`as_str`](Self::as_str), this needs no UTF-8 validation.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Deref for LimitName {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
