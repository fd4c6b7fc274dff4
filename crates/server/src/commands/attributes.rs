//! `-a NAME=VALUE`: the attributes of a request, as they are typed.

use std::borrow::Cow;

use tollgate_rules::{Attribute, Attributes, Value};

use super::Failure;

/// The request to ask about.
#[derive(Clone, Debug, clap::Args)]
pub struct AttributeArgs {
    /// Something known of the request, as in `client_ip=203.0.113.7`; may be given several times
    ///
    /// The service knows `client_ip`, `method`, `path`, `host`, `header:<name>`, `query:<name>` and
    /// `cookie:<name>`; any other name is the caller's own, such as `tenant`.
    #[arg(
        verbatim_doc_comment,
        long = "attribute",
        short = 'a',
        value_name = "NAME=VALUE"
    )]
    attributes: Vec<String>,
}

/// The attributes of a request.
#[derive(Debug, Default)]
pub(super) struct Given(Vec<(Attribute, String)>);

impl AttributeArgs {
    /// The attributes, each known once and by a name that there can be. Values are not repeated:
    /// they may be secrets.
    pub(super) fn read(&self) -> Result<Given, Failure> {
        let mut given = Given::default();
        for (index, text) in self.attributes.iter().enumerate() {
            let (name, value) = text.split_once('=').ok_or_else(|| no_value(index))?;
            let attribute: Attribute = name
                .parse()
                .map_err(|error| Failure::wrong(format!("-a: {error}")))?;
            if given.0.iter().any(|(known, _)| *known == attribute) {
                return Err(Failure::wrong(format!(
                    "-a: the attribute `{attribute}` is given twice; leave one out"
                )));
            }
            given.0.push((attribute, value.to_owned()));
        }
        Ok(given)
    }
}

fn no_value(index: usize) -> Failure {
    let number = index + 1;
    let right = "write NAME=VALUE, as in -a client_ip=203.0.113.7";
    Failure::wrong(format!("-a: attribute {number} has no `=`; {right}"))
}

impl Given {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Attribute, &str)> {
        self.0
            .iter()
            .map(|(attribute, value)| (attribute, value.as_str()))
    }
}

impl Attributes for Given {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let found = self.iter().find(|(known, _)| *known == attribute);
        found.map(|(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(attributes: &[&str]) -> Result<Given, String> {
        let attributes = attributes.iter().map(|&text| text.to_owned()).collect();
        AttributeArgs { attributes }
            .read()
            .map_err(|failure| failure.reason)
    }

    #[test]
    fn a_value_may_hold_anything() {
        let given = read(&["header:X-Key=a=b", "empty="]).unwrap();
        let key: Attribute = "header:x-key".parse().unwrap();
        assert_eq!(given.get(&key), Some(Value::Text("a=b".into())));
    }

    #[test]
    fn wrong_ones_are_told_without_their_values() {
        for (wrong, told) in [
            (["clientip=secret", "a=b"], "did you mean `client_ip`?"),
            (["a=b", "secret"], "attribute 2 has no `=`"),
            (
                ["header:A=secret", "header:a=secret"],
                "`header:a` is given twice",
            ),
            (["=secret", "a=b"], "0 bytes"),
        ] {
            let error = read(&wrong).unwrap_err();
            assert!(error.contains(told) && !error.contains("secret"), "{error}");
        }
    }
}
