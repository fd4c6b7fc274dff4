//! The name of a limit: short, printable, and copied instead of shared.

use std::fmt;
use std::ops::Deref;

use crate::limit::LimitError;

/// The longest name a limit may have, in bytes.
pub const NAME_MAX: usize = 47;

/// The name of a limit, as it appears in decisions, headers, metrics and keys.
///
/// It is held in place and copied with the decision: a shared, counted string would make two
/// threads that decide about the same limit fight over its counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitName {
    len: u8,
    bytes: [u8; NAME_MAX],
}

impl LimitName {
    /// Checks a name: 1 to 47 letters, digits, `-`, `_`, `.`, `:` or `/`.
    pub fn new(name: &str) -> Result<Self, LimitError> {
        let allowed = |c: &char| c.is_ascii_alphanumeric() || "-_.:/".contains(*c);
        if name.is_empty() {
            return Err(LimitError::EmptyName);
        }
        if name.len() > NAME_MAX {
            return Err(LimitError::LongName {
                found: name.chars().take(80).collect(),
                bytes: name.len(),
            });
        }
        if let Some(found) = name.chars().find(|c| !allowed(c)) {
            return Err(LimitError::NameCharacter {
                name: name.to_owned(),
                found,
            });
        }
        let mut bytes = [0; NAME_MAX];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        // NAME_MAX is below 256, so the length fits.
        Ok(Self {
            len: u8::try_from(name.len()).unwrap_or(u8::MAX),
            bytes,
        })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The name as bytes, without the cost of looking at them.
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
