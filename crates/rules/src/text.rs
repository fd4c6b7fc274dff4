//! Makes hidden characters of untrusted text visible, for terminals, log lines and pages.
//!
//! Keys, paths and names come from clients. A control character can move a terminal's cursor, and a
//! bidirectional control can show a text in another order than it has.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// Characters that show nothing, or change how the text around them is shown: controls, format
/// characters, fillers, variation selectors and tags. `visible` of the dashboard's page has the
/// same ranges.
pub const HIDDEN: [RangeInclusive<char>; 21] = [
    '\0'..='\u{1f}',
    '\u{7f}'..='\u{9f}',
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    // Zero-width spaces and joiners, left-to-right and right-to-left marks.
    '\u{200b}'..='\u{200f}',
    // Line and paragraph separators, bidirectional embeddings and overrides.
    '\u{2028}'..='\u{202e}',
    // Invisible operators, bidirectional isolates.
    '\u{2060}'..='\u{206f}',
    '\u{2800}'..='\u{2800}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

/// Whether a character is one of [`HIDDEN`].
///
/// ```
/// use tollgate_rules::text::is_hidden;
///
/// assert!(is_hidden('\u{202e}') && is_hidden('\n'));
/// assert!(!is_hidden('é') && !is_hidden(' '));
/// ```
pub fn is_hidden(c: char) -> bool {
    // Printable ASCII first: most text has nothing else.
    !matches!(c, ' '..='~') && HIDDEN.iter().any(|range| range.contains(&c))
}

/// The text in one line, with hidden characters escaped as in Rust: `\n`, `\u{202e}`.
///
/// ```
/// use tollgate_rules::text::visible;
///
/// assert_eq!(visible("user\u{202e}nimda\n"), "user\\u{202e}nimda\\n");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    visible_except(text, &[])
}

/// Like [`visible`], but keeps these characters, which the caller has written itself, such as line
/// breaks.
pub fn visible_except<'t>(text: &'t str, kept: &[char]) -> Cow<'t, str> {
    escape(
        text,
        |c| is_hidden(c) && !kept.contains(&c),
        |escaped, c| {
            escaped.extend(c.escape_default());
        },
    )
}

/// A JSON text, with hidden characters escaped as in JSON, `\u202e`, so that its value stays the
/// same. Keeps line breaks, which JSON has outside of strings only.
///
/// ```
/// use tollgate_rules::text::visible_json;
///
/// assert_eq!(visible_json("{\"key\": \"\u{202e}\"}"), r#"{"key": "\u202e"}"#);
/// ```
pub fn visible_json(json: &str) -> Cow<'_, str> {
    escape(
        json,
        |c| is_hidden(c) && !matches!(c, '\n' | '\r' | '\t'),
        |escaped, c| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(escaped, "\\u{unit:04x}").expect("writing to a string never fails");
            }
        },
    )
}

fn escape(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    write_escape: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }

    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            write_escape(&mut escaped, c);
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_others_stay() {
        for (text, expected) in [
            ("a\x1b[2Jb\r\nc", "a\\u{1b}[2Jb\\r\\nc"),
            ("\u{85}\u{9b}31m", "\\u{85}\\u{9b}31m"),
            (
                "\u{202a}\u{202e}\u{2066}\u{2069}",
                "\\u{202a}\\u{202e}\\u{2066}\\u{2069}",
            ),
            (
                "a\u{200b}b\u{200f}\u{feff}\u{61c}",
                "a\\u{200b}b\\u{200f}\\u{feff}\\u{61c}",
            ),
            ("\u{e0041}", "\\u{e0041}"),
            ("é ☃ 東京 שלום \\u", "é ☃ 東京 שלום \\u"),
        ] {
            assert_eq!(visible(text), expected);
        }
        assert_eq!(
            visible_except("\x1b[1ma\u{202e}\n", &['\x1b', '\n']),
            "\x1b[1ma\\u{202e}\n"
        );
    }

    #[test]
    fn every_control_is_hidden_and_the_ranges_are_in_order() {
        assert!(('\0'..=char::MAX).filter(|c| c.is_control()).all(is_hidden));
        assert!(HIDDEN.is_sorted_by(|a, b| a.end() < b.start()));
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({"a\u{202e}": "\n\u{7f}\u{e0041}é"});
        let json = serde_json::to_string_pretty(&value).unwrap();

        let escaped = visible_json(&json);
        assert!(!escaped.replace('\n', "").contains(is_hidden), "{escaped}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&escaped).unwrap(),
            value
        );
    }
}
