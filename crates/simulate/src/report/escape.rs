//! Escapes text for HTML. The text comes from the log, so anyone may have written it.

use std::fmt::{self, Display, Write as _};

/// Displays a text with HTML special characters and invisible characters escaped.
pub(super) struct HtmlText<'t>(pub(super) &'t str);

impl Display for HtmlText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            // Bidirectional controls could reverse the surrounding text.
            c if c.is_control() || is_invisible(c) => write!(f, "{}", c.escape_default()),
            c => f.write_char(c),
        })
    }
}

const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
    )
}
