//! Escapes text for the page. The text comes from the log, so anyone may have written it.

use std::fmt;

use tollgate_rules::text::is_hidden;

/// Escapes HTML special characters and hidden characters. The templates use it for every value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageEscaper;

impl askama::filters::Escaper for PageEscaper {
    fn write_escaped_str<W: fmt::Write>(&self, mut dest: W, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| match c {
            '&' => dest.write_str("&amp;"),
            '<' => dest.write_str("&lt;"),
            '>' => dest.write_str("&gt;"),
            '"' => dest.write_str("&quot;"),
            '\'' => dest.write_str("&#39;"),
            // Bidirectional controls could reverse the surrounding text.
            c if is_hidden(c) => write!(dest, "{}", c.escape_default()),
            c => dest.write_char(c),
        })
    }
}
