//! Patterns for paths: `*` within a segment, `**` across segments.

mod states;

use std::fmt;
use std::str::FromStr;

use crate::path::normalise;
use states::States;

/// The longest pattern in bytes.
const PATTERN_MAX: usize = 255;

/// The most stars or double stars in a pattern.
const STARS_MAX: usize = 16;

/// A pattern: `*` stands for any text without `/`, `**` for any text, everything else for itself.
///
/// `/**` may also stand for nothing where a segment ends: `/v1/**` matches `/v1` as well as all
/// below it, and `/a/**/b` matches `/a/b`. More than two stars in a row are two.
///
/// Matching takes time in proportion to the text, times the length of the pattern at worst; no text
/// makes it try everything.
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
    /// How many tokens at the start are bytes, which are compared without keeping states.
    literal: usize,
}

/// Whether capital and small letters differ. Only the letters of ASCII have both: others are
/// escaped in a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Case {
    /// They differ.
    #[default]
    Sensitive,
    /// They are the same.
    Insensitive,
}

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GlobError {
    /// There is no text, and nothing would match it.
    #[error("the pattern is empty; write /** for everything")]
    Empty,
    /// The text is too long.
    #[error("the pattern has {found} bytes; at most {PATTERN_MAX} are possible")]
    TooLong {
        /// Its length in bytes.
        found: usize,
    },
    /// There are too many stars.
    #[error("the pattern has {found} stars; at most {STARS_MAX} are possible")]
    TooManyStars {
        /// Their number, where several in a row are one.
        found: usize,
    },
    /// A pattern for paths does not begin like one, so that it would match none.
    #[error("the path {found:?} does not begin with a slash; write {right:?}")]
    Relative {
        /// The text.
        found: String,
        /// The same with a slash.
        right: String,
    },
    /// A pattern for paths holds what no path has, so that it would match none.
    #[error("the path {found:?} holds {sign:?}, but rules are about the path before the query")]
    Query {
        /// The text.
        found: String,
        /// The sign that ends a path.
        sign: char,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// A slash that may be left out together with the double star behind it.
    Opening,
    Star,
    DoubleStar,
}

impl Glob {
    /// A pattern for any text.
    pub fn new(text: &str, case: Case) -> Result<Self, GlobError> {
        check_length(text)?;
        let tokens = tokens(text, case);
        let is_byte = |token: &&Token| matches!(token, Token::Byte(_));
        let found = tokens
            .iter()
            .filter(|token| matches!(token, Token::Star | Token::DoubleStar))
            .count();
        if found > STARS_MAX {
            return Err(GlobError::TooManyStars { found });
        }
        let literal = tokens.iter().take_while(is_byte).count();
        Ok(Self {
            text: text.into(),
            case,
            tokens: tokens.into(),
            literal,
        })
    }

    /// A pattern for [normal](normalise) paths. It is brought into that spelling itself, so that it
    /// matches what is written the same way.
    pub fn for_path(text: &str, case: Case) -> Result<Self, GlobError> {
        check_length(text)?;
        if !text.starts_with('/') {
            return Err(GlobError::Relative {
                found: text.to_owned(),
                right: format!("/{text}"),
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

    /// Whether the whole text is as the pattern says.
    pub fn matches(&self, text: &str) -> bool {
        let (literal, tokens) = self.tokens.split_at(self.literal);
        let mut bytes = text.bytes().map(|byte| self.fold(byte));
        if !literal
            .iter()
            .all(|token| bytes.next().map(Token::Byte) == Some(*token))
        {
            return false;
        }
        let mut states = States::start(tokens);
        for byte in bytes {
            if states.are_decided(tokens) {
                break;
            }
            states = states.step(tokens, byte);
        }
        states.hold_the_end(tokens)
    }

    /// Whether there is only one text that matches, apart from its case.
    pub fn is_literal(&self) -> bool {
        self.literal == self.tokens.len()
    }

    /// Whether capital and small letters differ.
    pub const fn case(&self) -> Case {
        self.case
    }

    /// The pattern's text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    const fn fold(&self, byte: u8) -> u8 {
        self.case.fold(byte)
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

impl Case {
    const fn fold(self, byte: u8) -> u8 {
        match self {
            Self::Sensitive => byte,
            Self::Insensitive => byte.to_ascii_lowercase(),
        }
    }
}

const fn check_length(text: &str) -> Result<(), GlobError> {
    match text.len() {
        0 => Err(GlobError::Empty),
        1..=PATTERN_MAX => Ok(()),
        found => Err(GlobError::TooLong { found }),
    }
}

/// The tokens of a pattern. Stars are never neighbours, which spares the matching from following
/// chains of them.
fn tokens(text: &str, case: Case) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        let token = match (byte, tokens.last()) {
            (b'*', Some(Token::Star | Token::DoubleStar)) => {
                tokens.pop();
                Token::DoubleStar
            }
            (b'*', _) => Token::Star,
            _ => Token::Byte(case.fold(byte)),
        };
        tokens.push(token);
    }
    mark_openings(&mut tokens);
    tokens
}

fn mark_openings(tokens: &mut [Token]) {
    for at in 0..tokens.len() {
        let ends = matches!(tokens.get(at + 2), None | Some(Token::Byte(b'/')));
        if let Some([slash @ Token::Byte(b'/'), Token::DoubleStar]) = tokens.get_mut(at..at + 2)
            && ends
        {
            *slash = Token::Opening;
        }
    }
}

#[cfg(test)]
mod tests;
