//! One attribute of a key, with the functions that normalise its value: `lower(trim(email))`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use icu_normalizer::ComposingNormalizerBorrowed;

use crate::attribute::{Attribute, AttributeError, AttributeKind};

/// The most functions around one attribute.
const FUNCTIONS_MAX: usize = 4;
/// The functions by name.
const FUNCTIONS: [(&str, Normaliser); 2] =
    [("lower", Normaliser::Lower), ("trim", Normaliser::Trim)];

/// An attribute of a key, and how its value is normalised before it becomes part of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAttribute {
    attribute: Attribute,
    /// In the order in which they are applied: the innermost first. At most 4.
    normalisers: Vec<Normaliser>,
    /// As in the configuration, without spaces: `lower(trim(email))`.
    name: Box<str>,
}

/// A function that gives the spellings of a value that mean the same one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normaliser {
    /// `lower(..)`: ignores case and compatibility forms. The value is brought to NFKC, because
    /// frameworks do so with user names, and its letters to upper and then to lower case, because
    /// databases compare by either.
    Lower,
    /// `trim(..)`: without white space at both ends.
    Trim,
}

impl KeyAttribute {
    /// The attribute whose value is used.
    pub const fn attribute(&self) -> &Attribute {
        &self.attribute
    }

    /// The attribute with its functions, as in the configuration: `lower(trim(email))`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the value is taken as the caller sends it.
    pub(crate) const fn is_plain(&self) -> bool {
        matches!(self.attribute.kind(), AttributeKind::Custom) && self.normalisers.is_empty()
    }

    /// The same, but a path is in lower case.
    pub(crate) fn with_folded_path(mut self) -> Self {
        if self.attribute.kind() == AttributeKind::Path {
            self.normalisers.push(Normaliser::Lower);
        }
        self
    }

    /// Applies the functions to a value.
    pub(crate) fn normalise<'v>(&self, value: Cow<'v, str>) -> Cow<'v, str> {
        let normalisers = self.normalisers.iter();
        normalisers.fold(value, |value, normaliser| normaliser.apply(value))
    }
}

impl Normaliser {
    fn apply(self, value: Cow<'_, str>) -> Cow<'_, str> {
        match self {
            Self::Trim if value.trim_matches(is_blank).len() == value.len() => value,
            Self::Trim => value.trim_matches(is_blank).to_owned().into(),
            Self::Lower if value.is_ascii() => ascii_lower(value),
            Self::Lower => lower(&value).into(),
        }
    }
}

/// The text with ASCII letters in lower case.
pub(crate) fn ascii_lower(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        text.to_ascii_lowercase().into()
    } else {
        text
    }
}

/// What frameworks remove around a value: white space, and control characters such as NUL.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// Letter by letter, because the lower case of a whole text depends on the end of words.
fn lower(text: &str) -> String {
    let compatible = ComposingNormalizerBorrowed::new_nfkc();
    let folded: String = compatible
        .normalize(text)
        .chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    compatible.normalize(&folded).into_owned()
}

impl FromStr for KeyAttribute {
    type Err = KeyAttributeError;

    fn from_str(text: &str) -> Result<Self, KeyAttributeError> {
        let mut rest = text.trim();
        let mut names = Vec::new();
        let mut normalisers = Vec::new();

        while let Some((function, inner)) = function_call(rest) {
            let known = FUNCTIONS.iter().find(|(name, _)| *name == function);
            let Some((name, normaliser)) = known else {
                return Err(KeyAttributeError::UnknownFunction(function.to_owned()));
            };
            let Some(inner) = inner.strip_suffix(')') else {
                return Err(KeyAttributeError::Unclosed(text.to_owned()));
            };
            if names.len() == FUNCTIONS_MAX {
                return Err(KeyAttributeError::TooManyFunctions);
            }

            names.push(*name);
            normalisers.insert(0, *normaliser);
            rest = inner.trim();
        }

        let attribute: Attribute = rest.parse()?;
        if attribute.kind() == AttributeKind::ClientIp && !names.is_empty() {
            return Err(KeyAttributeError::Address);
        }
        let call = |inner: String, name: &&str| format!("{name}({inner})");
        let name = names.iter().rev().fold(attribute.to_string(), call);
        Ok(Self {
            attribute,
            normalisers,
            name: name.into(),
        })
    }
}

/// The name of a function and what follows its opening parenthesis. `None` if the text is not a
/// function call. The name of a query parameter may contain parentheses, but it follows a colon.
fn function_call(text: &str) -> Option<(&str, &str)> {
    let (name, inner) = text.split_once('(')?;
    (!name.contains(':')).then_some((name.trim_end(), inner))
}

impl fmt::Display for KeyAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The reason why a text is not a valid attribute of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyAttributeError {
    /// The attribute is not valid.
    #[error(transparent)]
    Attribute(#[from] AttributeError),
    /// There is no such function.
    #[error("unknown function {0:?}; expected lower or trim, such as lower(email)")]
    UnknownFunction(String),
    /// A parenthesis is not closed.
    #[error("invalid attribute {0:?}: expected `)` at its end, such as lower(email)")]
    Unclosed(String),
    /// There are more functions than allowed around one attribute.
    #[error("too many functions: at most {FUNCTIONS_MAX} are allowed around an attribute")]
    TooManyFunctions,
    /// An address has one form already.
    #[error("`client_ip` takes no function: an address already has one form")]
    Address,
}

#[cfg(test)]
mod tests;
