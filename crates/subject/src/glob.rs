//! Glob patterns for paths: `*` matches within a segment, `**` across segments.

mod automaton;
mod segments;
mod set;
mod token;

use std::fmt;
use std::str::FromStr;

use crate::path::normalise;
use automaton::Automaton;
use token::{PATTERN_MAX, Token};

pub use set::GlobSet;

/// The maximum number of `*` and `**` in a pattern.
const STARS_MAX: usize = 16;
/// The most words of the automaton of one pattern: a bit for each token, and one for the end.
const WORDS_MAX: usize = (PATTERN_MAX + 1).div_ceil(64);

/// A glob pattern: `*` matches any text without `/`, `**` matches any text, and every other
/// character matches itself.
///
/// `/**` at the end of a segment may also match nothing: `/v1/**` matches `/v1` and everything
/// below it, and `/a/**/b` matches `/a/b`. Three or more stars in a row mean `**`.
///
/// Matching takes time proportional to the length of the text. It never backtracks. To match many
/// patterns, see [`GlobSet`].
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
    /// The text as it is matched: in lower case, if case does not matter.
    folded: Box<str>,
    case: Case,
    tokens: Box<[Token]>,
    /// The number of leading tokens that are bytes. They are compared directly.
    literal: usize,
    /// The tokens after those.
    rest: Box<Automaton>,
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
        let folded = match case {
            Case::Sensitive => text.to_owned(),
            Case::Insensitive => text.to_ascii_lowercase(),
        };
        Self::from_folded(text, folded, case)
    }

    /// Compiles a pattern whose text is `folded`, but shown as `text`.
    fn from_folded(text: &str, folded: String, case: Case) -> Result<Self, GlobError> {
        check_length(text)?;
        check_length(&folded)?;
        let tokens = token::parse(&folded);

        let is_star = |token: &&Token| matches!(token, Token::Star | Token::DoubleStar);
        let found = tokens.iter().filter(is_star).count();
        if found > STARS_MAX {
            return Err(GlobError::TooManyStars { found });
        }

        let is_byte = |token: &&Token| matches!(token, Token::Byte(_));
        let literal = tokens.iter().take_while(is_byte).count();
        Ok(Self {
            text: text.into(),
            folded: folded.into(),
            case,
            rest: Box::new(Automaton::new([(&tokens[literal..], case)])),
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

        if let Some(sign) = text.chars().find(|sign| matches!(sign, '?' | '#')) {
            return Err(GlobError::Query {
                found: text.to_owned(),
                sign,
            });
        }

        let folded = match case {
            Case::Sensitive => normalise(text).into_owned(),
            // Letters beyond ASCII are folded before they are encoded.
            Case::Insensitive => normalise(&text.to_lowercase()).to_ascii_lowercase(),
        };
        Self::from_folded(&normalise(text), folded, case)
    }

    /// Whether the pattern matches the whole text.
    pub fn matches(&self, text: &str) -> bool {
        // Tokens are bytes here, so the pattern's text and its tokens have the same positions.
        let literal = &self.folded.as_bytes()[..self.literal];
        let Some((start, rest)) = text.as_bytes().split_at_checked(literal.len()) else {
            return false;
        };
        let is_equal = match self.case {
            Case::Sensitive => start == literal,
            Case::Insensitive => start.eq_ignore_ascii_case(literal),
        };
        if !is_equal || self.is_literal() {
            return is_equal && rest.is_empty();
        }

        let mut states = [0; WORDS_MAX];
        let states = &mut states[..self.rest.words()];
        self.rest.run(rest, states);
        self.rest.matched(states).next().is_some()
    }

    /// Whether the pattern has no stars, so that it matches only one text, apart from its case.
    pub fn is_literal(&self) -> bool {
        self.literal == self.tokens.len()
    }

    /// Whether matching is case-sensitive.
    pub const fn case(&self) -> Case {
        self.case
    }

    /// The text that the pattern matches if it has [no stars](Self::is_literal), in lower case if
    /// case does not matter.
    pub fn folded(&self) -> &str {
        &self.folded
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
