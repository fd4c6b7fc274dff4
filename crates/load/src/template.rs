//! Values with places to fill in: `{key}` is the client's name, `{ip}` its address.

use std::fmt::Write as _;

use crate::draw::{Draw, address};
use crate::keys::Keys;

/// A value of an attribute, a header or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Key,
    Address,
}

/// Why a text is no template. The text is not repeated: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A brace that nothing closes or opens.
    #[error(
        "it has a `{{` or `}}` of its own; write {{key}} or {{ip}}, or {{{{ and }}}} for the braces themselves"
    )]
    Brace,
    /// No such thing to fill in.
    #[error(
        "`{{{0}}}` is nothing that can be filled in; write {{key}} for the client or {{ip}} for its address"
    )]
    Unknown(String),
}

impl Template {
    /// Reads a text.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
                plain.push_str(&rest[..1]);
                rest = after;
                continue;
            }
            let inside = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let (name, after) = inside.ok_or(TemplateError::Brace)?;
            let part = match name {
                "key" => Part::Key,
                "ip" => Part::Address,
                _ => {
                    return Err(TemplateError::Unknown(
                        name.chars()
                            .filter(|c| c.is_alphanumeric())
                            .take(20)
                            .collect(),
                    ));
                }
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(part);
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    /// Adds the value for one request.
    pub(crate) fn write(&self, draw: Draw, keys: &Keys, to: &mut String) {
        for part in &self.0 {
            match part {
                Part::Text(text) => to.push_str(text),
                Part::Key => to.push_str(&keys.value(draw.key)),
                Part::Address => {
                    let _infallible = write!(to, "{}", address(draw.address));
                }
            }
        }
    }

    /// The value for one request.
    pub(crate) fn fill(&self, draw: Draw, keys: &Keys) -> String {
        let mut value = String::new();
        self.write(draw, keys, &mut value);
        value
    }

    /// The same for a report, which must not show lines of a file.
    pub(crate) fn label(&self, draw: Draw, keys: &Keys) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Key => keys.label(draw.key),
            Part::Address => address(draw.address).to_string(),
        };
        self.0.iter().map(part).collect()
    }

    /// Whether it holds what no header and no path can hold.
    pub fn has_controls(&self) -> bool {
        self.0
            .iter()
            .any(|part| matches!(part, Part::Text(text) if text.chars().any(char::is_control)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_in() {
        let draw = Draw {
            key: 7,
            address: 300,
            cost: None,
        };
        let filled =
            |text: &str| Template::parse(text).map(|template| template.fill(draw, &Keys::one()));
        assert_eq!(filled("u-{key}@{ip}!"), Ok("u-key-7@10.0.1.45!".to_owned()));
        assert_eq!(filled("{{key}} {{{key}}}"), Ok("{key} {key-7}".to_owned()));
        assert_eq!(filled(""), Ok(String::new()));
        assert_eq!(filled("plain"), Ok("plain".to_owned()));
        for wrong in ["{key", "a}b", "{", "}"] {
            assert_eq!(filled(wrong), Err(TemplateError::Brace), "{wrong}");
        }
        assert_eq!(
            filled("{user}"),
            Err(TemplateError::Unknown("user".to_owned()))
        );
        assert!(
            filled("{user}")
                .unwrap_err()
                .to_string()
                .starts_with("`{user}` is nothing")
        );
    }

    #[test]
    fn reports_do_not_show_what_a_file_holds() {
        let keys = Keys::listed("sesame").unwrap();
        let draw = Draw {
            key: 0,
            address: 0,
            cost: None,
        };
        assert_eq!(
            Template::parse("x-{key}").unwrap().label(draw, &keys),
            "x-key 1 of the file"
        );
    }
}
