//! One value of the file: as it is written, and as it is meant once variables are read.

/// The most of a value that a fault shows.
const SHOWN_MAX: usize = 60;

/// A scalar. What is written may be shown; what it means may be a secret.
#[derive(Clone, Debug)]
pub(super) struct Text {
    /// As it is written, with `${VAR}` in it.
    pub(super) written: String,
    /// As it is meant.
    pub(super) meant: String,
    /// Where the meaning comes from.
    pub(super) origin: Origin,
    /// False when it is in quotes, so that `"null"` is a word.
    pub(super) is_plain: bool,
}

/// Where the meaning of a text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// From the file: it may be shown.
    File,
    /// From the environment, at least in part: it is never shown.
    Environment,
    /// From nowhere: a variable was wrong, which has been told, so nothing more is.
    Broken,
}

impl Text {
    pub(super) fn new(written: String, is_plain: bool) -> Self {
        Self {
            meant: written.clone(),
            written,
            origin: Origin::File,
            is_plain,
        }
    }

    /// True for what YAML calls null: nothing, `~` or `null`.
    pub(super) fn is_nothing(&self) -> bool {
        self.is_plain && self.origin == Origin::File && is_null(&self.meant)
    }

    /// True when a message about it must not repeat it. A URL may hold a password wherever it
    /// stands.
    pub(super) fn is_private(&self) -> bool {
        self.origin != Origin::File || self.meant.contains("://")
    }

    /// What a fault may show of it.
    pub(super) fn shown(&self) -> String {
        shown(&self.written)
    }
}

pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Some text of the file in quotes: its beginning if it is long, and no more than the scheme of a
/// URL.
pub(super) fn shown(text: &str) -> String {
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
