//! `-a NAME=VALUE`: the attributes of a request on the command line.

use std::borrow::Cow;

use tollgate_rules::{Attribute, Attributes, Value};

use super::outcome::{CommandError, invalid};

/// The attributes of a request.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct AttributeArgs {
    /// An attribute of the request, such as `client_ip=203.0.113.7`; may be repeated
    ///
    /// The service itself knows `client_ip`, `method`, `path`, `host`, `header:<name>`,
    /// `query:<name>` and `cookie:<name>`. Any other name, such as `tenant`, is defined by your
    /// application.
    #[arg(
        verbatim_doc_comment,
        long = "attribute",
        short = 'a',
        value_name = "NAME=VALUE"
    )]
    attributes: Vec<String>,
}

/// The parsed attributes, each at most once.
#[derive(Debug, Default)]
pub(super) struct RequestAttributes(Vec<(Attribute, String)>);

impl AttributeArgs {
    /// Parses the attributes. Errors never contain the values: they may be secrets.
    pub(super) fn read(&self) -> Result<RequestAttributes, CommandError> {
        let mut attributes = RequestAttributes::default();

        for (index, text) in self.attributes.iter().enumerate() {
            let (name, value) = text.split_once('=').ok_or_else(|| {
                invalid(format!(
                    "-a: attribute {} has no `=`; expected NAME=VALUE, such as \
                     -a client_ip=203.0.113.7",
                    index + 1
                ))
            })?;
            let attribute: Attribute = name
                .parse()
                .map_err(|error| invalid(format!("-a: {error}")))?;
            if attributes.get(&attribute).is_some() {
                return Err(invalid(format!("-a: duplicate attribute `{attribute}`")));
            }
            attributes.0.push((attribute, value.to_owned()));
        }
        Ok(attributes)
    }
}

impl RequestAttributes {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Attribute, &str)> {
        self.0
            .iter()
            .map(|(attribute, value)| (attribute, value.as_str()))
    }
}

impl Attributes for RequestAttributes {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let found = self.iter().find(|(known, _)| *known == attribute);
        found.map(|(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(attributes: &[&str]) -> Result<RequestAttributes, String> {
        let attributes = attributes.iter().map(|&text| text.to_owned()).collect();
        AttributeArgs { attributes }
            .read()
            .map_err(|error| error.reason)
    }

    #[test]
    fn a_value_may_hold_anything() {
        let attributes = read(&["header:X-Key=a=b", "empty="]).unwrap();
        let key: Attribute = "header:x-key".parse().unwrap();
        assert_eq!(attributes.get(&key), Some(Value::Text("a=b".into())));
    }

    #[test]
    fn errors_do_not_show_values() {
        for (wrong, expected) in [
            (["clientip=secret", "a=b"], "did you mean `client_ip`?"),
            (["a=b", "secret"], "attribute 2 has no `=`"),
            (
                ["header:A=secret", "header:a=secret"],
                "duplicate attribute `header:a`",
            ),
            (["=secret", "a=b"], "found 0"),
        ] {
            let error = read(&wrong).unwrap_err();
            assert!(
                error.contains(expected) && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
