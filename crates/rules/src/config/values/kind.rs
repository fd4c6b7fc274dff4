//! A kind of scalar value, and why a text is not one.

use std::fmt;
use std::path::Path;

/// A kind of scalar value: what errors call it, what they say is expected, and its parser.
pub(crate) struct ValueKind<T> {
    /// The name of the kind, such as `duration`: "invalid duration ..".
    pub(crate) noun: &'static str,
    /// What is expected: "expected a number with a unit, such as 10ms".
    pub(crate) expected: &'static str,
    /// Parses a text that is not empty.
    pub(crate) parse: fn(&str) -> Result<T, ValueError>,
}

impl<T> ValueKind<T> {
    pub(crate) const fn new(
        noun: &'static str,
        expected: &'static str,
        parse: fn(&str) -> Result<T, ValueError>,
    ) -> Self {
        Self {
            noun,
            expected,
            parse,
        }
    }
}

/// The reason why a text is not a valid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueError {
    /// It is not what the kind expects.
    Unexpected,
    /// A more precise reason, which does not repeat the text.
    Reason(&'static str),
    /// Like `Reason`, with another noun.
    Noun(&'static str, &'static str),
    /// What to write instead. It repeats the text, so it must not be shown for secrets.
    Suggestion(String),
    /// A whole message that names the kind and repeats the text.
    Message(String),
}

impl ValueError {
    /// The error of a type that parses texts itself.
    pub(crate) fn message(error: impl fmt::Display) -> Self {
        Self::Message(error.to_string())
    }
}

/// Whether a text has only ASCII letters, digits and these other characters.
pub(crate) fn has_only(text: &str, others: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// What follows `http://` or `https://` in a URL.
pub(crate) fn without_http(url: &str) -> Option<&str> {
    url.strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))
}

/// Whether a path names a file, and not a directory.
pub(crate) fn is_file(path: &str) -> bool {
    Path::new(path).file_name().is_some() && !path.ends_with('/')
}

/// The text itself, if it is valid.
pub(crate) fn text_if(is_valid: bool, text: &str) -> Result<String, ValueError> {
    is_valid
        .then(|| text.to_owned())
        .ok_or(ValueError::Unexpected)
}
