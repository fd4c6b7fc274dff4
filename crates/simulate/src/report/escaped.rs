//! Texts that strangers wrote, as text and nothing else.

use std::fmt::{self, Display, Write as _};

/// A text that is only text.
pub(super) struct Escaped<'t>(pub(super) &'t str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            // Nothing may turn the direction of the text around it, or hide in it.
            c if c.is_control() || is_invisible(c) => write!(f, "{}", c.escape_default()),
            c => f.write_char(c),
        })
    }
}

const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
