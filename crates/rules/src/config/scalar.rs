//! A scalar value of the file: its text, and its value after variables are expanded.

/// The most characters of a value that an error shows.
const SHOWN_MAX: usize = 60;

/// A scalar. Its text may be shown; its value may be a secret.
#[derive(Clone, Debug)]
pub(super) struct ScalarValue {
    /// The text in the file, with `${VAR}` unexpanded.
    pub(super) text: String,
    /// The value, with variables expanded.
    pub(super) value: String,
    /// Where the value comes from.
    pub(super) origin: Origin,
    /// Whether the scalar is unquoted. A quoted `"null"` is a string, not a null.
    pub(super) is_plain: bool,
}

/// Where the value of a scalar comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// From the file alone, so it may be shown.
    File,
    /// From the environment, at least in part, so it is never shown.
    Environment,
    /// Expanding a variable failed, so the value is not usable. That error was reported; no further
    /// one is needed.
    Failed,
}

impl ScalarValue {
    pub(super) fn new(text: String, is_plain: bool) -> Self {
        Self {
            value: text.clone(),
            text,
            origin: Origin::File,
            is_plain,
        }
    }

    /// Whether this is a YAML null: empty, `~` or `null`.
    pub(super) fn is_null(&self) -> bool {
        self.is_plain && self.origin == Origin::File && is_null(&self.value)
    }

    /// Whether messages must not repeat the value. Any URL may contain a password.
    pub(super) fn is_private(&self) -> bool {
        self.origin != Origin::File || self.value.contains("://")
    }

    /// The part of the text that an error may show, in quotes.
    pub(super) fn quoted(&self) -> String {
        quoted(&self.text)
    }
}

pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Quotes a text of the file for an error. Long texts are cut, and only the scheme of a URL is
/// shown.
pub(super) fn quoted(text: &str) -> String {
    let (text, is_cut) = match text.split_once("://") {
        Some((scheme, _)) if scheme.len() < SHOWN_MAX && !scheme.contains(['@', ':']) => {
            (format!("{scheme}://"), true)
        }
        Some(_) => return "a URL".into(),
        None => (
            text.chars().take(SHOWN_MAX).collect(),
            text.chars().nth(SHOWN_MAX).is_some(),
        ),
    };

    let dots = if is_cut { "..." } else { "" };
    format!("{:?}", text + dots)
}
