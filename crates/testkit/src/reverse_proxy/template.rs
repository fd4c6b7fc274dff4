//! A configuration with placeholders: `@port@` and `@port:name@` for free ports, any other `@word@`
//! for a value set by the test.
//!
//! Proxies do not use this syntax themselves: their `@` is only a prefix of a name.

use std::collections::BTreeMap;

use crate::ports::Port;

/// The name of `@port@`.
pub(super) const MAIN: &str = "";

/// A configuration without placeholders, and its ports.
#[derive(Debug)]
pub(super) struct FilledTemplate {
    pub(super) text: String,
    pub(super) ports: BTreeMap<String, Port>,
}

/// Replaces the placeholders. The same name always means the same port.
///
/// # Panics
///
/// If the text has a word that is not in `words`.
pub(super) fn fill(text: &str, words: &BTreeMap<String, String>) -> FilledTemplate {
    let mut filled = FilledTemplate {
        text: String::new(),
        ports: BTreeMap::new(),
    };

    let mut rest = text;
    while let Some((before, word, after)) = next_placeholder(rest) {
        filled.text.push_str(before);

        match port_name(word) {
            Some(name) => {
                let port = filled
                    .ports
                    .entry(name.to_owned())
                    .or_insert_with(Port::reserve);
                filled.text.push_str(&port.number().to_string());
            }
            None => filled
                .text
                .push_str(words.get(word).unwrap_or_else(|| unknown(word))),
        }

        rest = after;
    }

    filled.text.push_str(rest);
    filled
}

/// The text before the first placeholder, its word, and the text after it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('@').find_map(|(start, _)| {
        let (word, after) = text[start + 1..].split_once('@')?;
        let is_word = !word.is_empty() && word.bytes().all(is_word_byte);
        is_word.then_some((&text[..start], word, after))
    })
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_:-".contains(&byte)
}

fn port_name(word: &str) -> Option<&str> {
    match word.strip_prefix("port")? {
        "" => Some(MAIN),
        named => named.strip_prefix(':'),
    }
}

#[expect(
    clippy::panic,
    reason = "a test cannot continue with an incomplete configuration"
)]
fn unknown(word: &str) -> ! {
    panic!("missing value for the placeholder @{word}@")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> BTreeMap<String, String> {
        BTreeMap::from([("upstream".to_owned(), "127.0.0.1:9".to_owned())])
    }

    #[test]
    fn the_same_name_is_the_same_port() {
        let filled = fill("@port@ @port:admin@ @port@ @upstream@!", &words());
        let (main, admin) = (filled.ports[MAIN].number(), filled.ports["admin"].number());
        assert_ne!(main, admin);
        assert_eq!(filled.text, format!("{main} {admin} {main} 127.0.0.1:9!"));
    }

    #[test]
    fn names_with_the_prefix_are_not_placeholders() {
        let nginx = "error_page 403 = @denied; location @denied { return 429; } # ann@example.com";
        assert_eq!(fill(nginx, &words()).text, nginx);
        let caddy = "@denied status 403\nhandle_response @denied";
        assert_eq!(fill(caddy, &words()).text, caddy);
    }

    #[test]
    #[should_panic(expected = "@portal@")]
    fn a_missing_value_is_reported() {
        fill("@upstream@ @portal@", &words());
    }
}
