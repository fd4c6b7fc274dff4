//! Access tokens: their hashes, and what a token may do.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The fewest characters of a token; shorter ones can be guessed.
pub const TOKEN_MIN: usize = 16;
/// The most characters of a token.
const TOKEN_MAX: usize = 512;
/// The prefix of a token that is written as its hash.
const HASH_PREFIX: &str = "sha256:";

/// The SHA-256 hash of a token. The token itself is not kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

/// Does not show the hash.
impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}

/// Why a text is not a token. The message does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It can be guessed.
    #[error("it has {found} characters; expected at least {TOKEN_MIN}")]
    Short {
        /// The number of characters.
        found: usize,
    },
    /// It is longer than a header should be.
    #[error("it has {found} characters; expected at most {TOKEN_MAX}")]
    Long {
        /// The number of characters.
        found: usize,
    },
    /// A header cannot carry it, or only ambiguously.
    #[error("expected printable ASCII characters without spaces, as `openssl rand -hex 32` prints")]
    Characters,
    /// It starts like a hash but is none.
    #[error("expected 64 hexadecimal digits after `sha256:`")]
    Hash,
}

impl TokenHash {
    /// The hash of a token, which must be hard to guess and fit into a header.
    ///
    /// ```
    /// use tollgate_rules::{TokenError, TokenHash};
    ///
    /// assert_eq!(TokenHash::from_token("hunter2"), Err(TokenError::Short { found: 7 }));
    /// assert_eq!(TokenHash::from_token(&" ".repeat(20)), Err(TokenError::Characters));
    /// assert!(TokenHash::from_token("correct-horse-battery").is_ok());
    /// ```
    pub fn from_token(token: &str) -> Result<Self, TokenError> {
        let found = token.chars().count();
        if !token.chars().all(|c| c.is_ascii_graphic()) {
            Err(TokenError::Characters)
        } else if found < TOKEN_MIN {
            Err(TokenError::Short { found })
        } else if found > TOKEN_MAX {
            Err(TokenError::Long { found })
        } else {
            Ok(Self::from_bytes(token.as_bytes()))
        }
    }

    /// The hash of a token in a configuration: the token, or `sha256:` and its hash.
    pub(crate) fn from_setting(text: &str) -> Result<Self, TokenError> {
        let Some(digits) = text.strip_prefix(HASH_PREFIX) else {
            return Self::from_token(text);
        };
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(TokenError::Hash);
        }

        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| TokenError::Hash)?;
        }
        Ok(Self(hash))
    }

    /// The hash of what a request brought, valid or not. Of a text that is longer than any token,
    /// only the part is hashed that shows it.
    pub(crate) fn from_bytes(presented: &[u8]) -> Self {
        let bounded = &presented[..presented.len().min(TOKEN_MAX + 1)];
        Self(Sha256::digest(bounded).into())
    }

    /// Whether a request brought this token. Compares in constant time.
    pub fn matches(&self, presented: &[u8]) -> bool {
        self.is_same(&Self::from_bytes(presented))
    }

    /// Compares in constant time.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// What a request does. A token lists what it may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Permission {
    /// Decide and charge: checks, forward-auth, Envoy's requests.
    Check,
    /// Decide without charging.
    Peek,
    /// Give back what a check charged.
    Refund,
    /// End a permit of a concurrency limit.
    Release,
    /// Forget what a key has used.
    Reset,
    /// Bring the numbers of a limit along, as Envoy's descriptors may.
    Inline,
}

impl Permission {
    /// All of them with their names in a configuration, in the order of their numbers.
    pub(crate) const ALL: &[(&str, Self)] = &[
        ("check", Self::Check),
        ("peek", Self::Peek),
        ("refund", Self::Refund),
        ("release", Self::Release),
        ("reset", Self::Reset),
        ("inline", Self::Inline),
    ];

    /// The name in a configuration.
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PermissionSet(u32);

impl PermissionSet {
    /// Every permission.
    pub const ALL: Self = Self(u32::MAX);

    /// Whether the permission is in the set.
    pub const fn contains(self, permission: Permission) -> bool {
        self.0 >> permission as u32 & 1 == 1
    }

    /// The set with this permission in addition.
    #[must_use]
    pub const fn with(self, permission: Permission) -> Self {
        Self(self.0 | 1 << permission as u32)
    }
}

impl FromIterator<Permission> for PermissionSet {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        permissions.into_iter().fold(Self::default(), Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_and_its_hash_are_the_same_setting() {
        // printf correct-horse-battery | sha256sum
        let digits = "62249369389075490555a758353aec61500c6218fa597252d52dc4bd0148f12d";
        let token = TokenHash::from_setting("correct-horse-battery").unwrap();
        for digits in [digits.to_owned(), digits.to_uppercase()] {
            let hashed = TokenHash::from_setting(&format!("sha256:{digits}")).unwrap();
            assert!(hashed.is_same(&token));
        }

        assert!(!token.matches(b"correct-horse-batterx"));
        let longest = TokenHash::from_token(&"x".repeat(512)).unwrap();
        assert!(longest.matches("x".repeat(512).as_bytes()));
        assert!(!longest.matches("x".repeat(513).as_bytes()));
        assert!(!longest.matches("x".repeat(60_000).as_bytes()));
        assert!(!format!("{token:?}").contains(&digits[..4]));
        for wrong in [&digits[1..], "", &digits.replace('3', "g")] {
            let hash = TokenHash::from_setting(&format!("sha256:{wrong}"));
            assert_eq!(hash, Err(TokenError::Hash), "{wrong}");
        }
    }

    #[test]
    fn weak_tokens_are_refused() {
        for (token, expected) in [
            ("", TokenError::Short { found: 0 }),
            ("0123456789abcde", TokenError::Short { found: 15 }),
            ("                    ", TokenError::Characters),
            ("0123456789 abcdef", TokenError::Characters),
            ("0123456789abcdeä", TokenError::Characters),
            (&"x".repeat(513), TokenError::Long { found: 513 }),
        ] {
            assert_eq!(TokenHash::from_token(token), Err(expected), "{token:?}");
        }
        assert!(TokenHash::from_token("0123456789abcdef").is_ok());
    }

    #[test]
    fn a_set_contains_what_was_added() {
        let set: PermissionSet = [Permission::Check, Permission::Inline]
            .into_iter()
            .collect();
        assert!(set.contains(Permission::Check) && set.contains(Permission::Inline));
        assert!(
            !set.contains(Permission::Refund) && PermissionSet::ALL.contains(Permission::Reset)
        );
    }
}
