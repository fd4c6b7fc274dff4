//! Glob patterns for paths: `*` matches within a segment, `**` across segments.

mod match_states;
mod token;

use std::fmt;
use std::str::FromStr;

use crate::path::normalise;
use match_states::MatchStates;
use token::{PATTERN_MAX, Token};

/// The maximum number of `*` and `**` in a pattern.
const STARS_MAX: usize = 16;

/// A glob pattern: `*` matches any text without `/`, `**` matches any text, and every other
/// character matches itself.
///
/// `/**` at the end of a segment may also match nothing: `/v1/**` matches `/v1` and everything
/// below it, and `/a/**/b` matches `/a/b`. Three or more stars in a row mean `**`.
///
/// Matching takes at most time proportional to the length of the text times the length of the
/// pattern. It never backtracks.
///
/// ```
/// use tollgate_subject::{Case, Glob};
///
/// let users: Glob = "/v1/users/*/**".parse()?;
/// assert!(users.matches("/v1/users/ann") && users.matches("/v1/users/ann/keys/7"));
/// assert!(!users.matches("/v1/users") && !users.matches("/v1/users-old/ann"));
///
/// let login = Glob::for_path("/Auth/Login/", Case::Insensitive)?;
/// assert!(login.matches("/auth/login"));
/// # Ok::<(), tollgate_subject::GlobError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: Box<str>,
    case: Case,
    tokens: Box<[Token]>,
    /// The number of leading tokens that are bytes. They are compared directly, without states.
    literal: usize,
}

/// Whether matching is case-sensitive. This concerns ASCII letters only; others are percent-encoded
/// in a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Case {
    /// Upper and lower case differ.
    #[default]
    Sensitive,
    /// Upper and lower case are the same.
    Insensitive,
}

/// The reason why a text is not a valid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GlobError {
    /// The pattern is empty and would match nothing.
    #[error("the pattern is empty; use /** to match everything")]
    Empty,
    /// The pattern is too long.
    #[error("the pattern is too long: found {found} bytes, at most {PATTERN_MAX} are allowed")]
    TooLong {
        /// The length in bytes.
        found: usize,
    },
    /// There are too many stars.
    #[error("too many stars in the pattern: found {found}, at most {STARS_MAX} are allowed")]
    TooManyStars {
        /// The number of stars; several in a row count as one.
        found: usize,
    },
    /// A path pattern does not start with a slash, so it would never match.
    #[error("invalid path pattern {found:?}: it must start with a slash; write {suggestion:?}")]
    Relative {
        /// The pattern.
        found: String,
        /// The pattern with a leading slash.
        suggestion: String,
    },
    /// A path pattern contains `?` or `#`, so it would never match.
    #[error(
        "invalid path pattern {found:?}: it must not contain {sign:?}, because it is matched \
         against the path without the query"
    )]
    Query {
        /// The pattern.
        found: String,
        /// The character that ends a path.
        sign: char,
    },
}

impl Glob {
    /// Creates a pattern for any text.
    pub fn new(text: &str, case: Case) -> Result<Self, GlobError> {
        check_length(text)?;
        let tokens = match case {
            Case::Sensitive => token::parse(text),
            Case::Insensitive => token::parse(&text.to_ascii_lowercase()),
        };

        let found = tokens
            .iter()
            .filter(|token| matches!(token, Token::Star | Token::DoubleStar))
            .count();
        if found > STARS_MAX {
            return Err(GlobError::TooManyStars { found });
        }

        let is_byte = |token: &&Token| matches!(token, Token::Byte(_));
        let literal = tokens.iter().take_while(is_byte).count();
        Ok(Self {
            text: text.into(),
            case,
            tokens: tokens.into(),
            literal,
        })
    }

    /// Creates a pattern for [normalised](normalise) paths. The pattern itself is normalised too,
    /// so that it matches paths in the same spelling.
    pub fn for_path(text: &str, case: Case) -> Result<Self, GlobError> {
        check_length(text)?;
        if !text.starts_with('/') {
            return Err(GlobError::Relative {
                found: text.to_owned(),
                suggestion: format!("/{text}"),
            });
        }

        match text.chars().find(|sign| matches!(sign, '?' | '#')) {
            Some(sign) => Err(GlobError::Query {
                found: text.to_owned(),
                sign,
            }),
            None => Self::new(&normalise(text), case),
        }
    }

    /// Whether the pattern matches the whole text.
    pub fn matches(&self, text: &str) -> bool {
        let (literal, tokens) = self.tokens.split_at(self.literal);
        let mut bytes = text.bytes().map(|byte| match self.case {
            Case::Sensitive => byte,
            Case::Insensitive => byte.to_ascii_lowercase(),
        });
        if !literal
            .iter()
            .all(|token| bytes.next().map(Token::Byte) == Some(*token))
        {
            return false;
        }

        let mut states = MatchStates::start(tokens);
        for byte in bytes {
            if states.is_decided(tokens) {
                break;
            }
            states = states.step(tokens, byte);
        }
        states.contains_end(tokens)
    }

    /// Whether the pattern has no stars, so that it matches only one text, apart from its case.
    pub fn is_literal(&self) -> bool {
        self.literal == self.tokens.len()
    }

    /// Whether matching is case-sensitive.
    pub const fn case(&self) -> Case {
        self.case
    }

    /// The text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Glob {
    type Err = GlobError;

    fn from_str(text: &str) -> Result<Self, GlobError> {
        Self::new(text, Case::default())
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

const fn check_length(text: &str) -> Result<(), GlobError> {
    match text.len() {
        0 => Err(GlobError::Empty),
        1..=PATTERN_MAX => Ok(()),
        found => Err(GlobError::TooLong { found }),
    }
}

#[cfg(test)]
mod tests;
