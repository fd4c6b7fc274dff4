//! Templates for values in requests, with the placeholders `{key}` and `{ip}` (source address).

use crate::generator::{RequestParams, address};
use crate::keys::KeyDistribution;

/// A template for the value of an attribute, a header or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueTemplate(Vec<TemplatePart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Key,
    Address,
}

/// An invalid template. The message does not repeat the text, as it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A brace without its counterpart.
    #[error(
        "unmatched `{{` or `}}`; expected {{key}} or {{ip}}, \
         or {{{{ and }}}} for literal braces"
    )]
    Brace,
    /// A placeholder that does not exist.
    #[error("unknown placeholder `{{{0}}}`; expected {{key}} or {{ip}}")]
    Unknown(String),
}

impl ValueTemplate {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;

        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            rest = &rest[at..];

            // A doubled brace is an escaped one.
            if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
                literal.push_str(&rest[..1]);
                rest = after;
                continue;
            }

            let inside = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let (name, after) = inside.ok_or(TemplateError::Brace)?;
            let part = match name {
                "key" => TemplatePart::Key,
                "ip" => TemplatePart::Address,
                _ => {
                    let name = name.chars().filter(|c| c.is_alphanumeric()).take(20);
                    return Err(TemplateError::Unknown(name.collect()));
                }
            };

            if !literal.is_empty() {
                parts.push(TemplatePart::Text(std::mem::take(&mut literal)));
            }
            parts.push(part);
            rest = after;
        }

        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(TemplatePart::Text(literal));
        }
        Ok(Self(parts))
    }

    /// The value for one request.
    pub(crate) fn fill(&self, params: RequestParams, keys: &KeyDistribution) -> String {
        self.render(&keys.value(params.key), params.address)
    }

    /// The value for one request as shown in reports, without keys that come from a file.
    pub(crate) fn label(&self, params: RequestParams, keys: &KeyDistribution) -> String {
        self.render(&keys.label(params.key), params.address)
    }

    fn render(&self, key: &str, address_index: u32) -> String {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Key => key.to_owned(),
            TemplatePart::Address => address(address_index).to_string(),
        };
        self.0.iter().map(part).collect()
    }

    /// Whether the text has control characters, which are not allowed in headers and paths.
    pub fn has_controls(&self) -> bool {
        self.0.iter().any(
            |part| matches!(part, TemplatePart::Text(text) if text.chars().any(char::is_control)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in() {
        let params = RequestParams {
            key: 7,
            address: 300,
            cost: None,
        };
        let filled = |text: &str| {
            ValueTemplate::parse(text)
                .map(|template| template.fill(params, &KeyDistribution::single()))
        };
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
                .starts_with("unknown placeholder `{user}`")
        );
    }

    #[test]
    fn labels_do_not_show_keys_of_a_file() {
        let keys = KeyDistribution::from_lines("sesame").unwrap();
        let params = RequestParams {
            key: 0,
            address: 0,
            cost: None,
        };
        assert_eq!(
            ValueTemplate::parse("x-{key}")
                .unwrap()
                .label(params, &keys),
            "x-key 1 of the file"
        );
    }
}
