//! A request that meets a limit of the configuration, for the `curl` line at the start.

use std::borrow::Cow;

use serde_json::{Map, Value as Json};
use tollgate_rules::{
    Attribute, AttributeKind, Attributes, LimitConfig, MissingKeyPolicy, Pattern, SelectError,
    Selector, Value,
};

/// The most attributes that are added because some limit lacks one.
const ADDED_MAX: usize = 16;

/// The attributes of a request, by their names.
#[derive(Debug, Default)]
struct SampleRequest(Map<String, Json>);

/// The body of a check that meets a limit, of the first one for which there is such a request.
/// Without one, of a request that has only an address.
pub(super) fn body(selector: &Selector) -> String {
    let samples = selector.limits().iter().map(SampleRequest::new);
    let mut complete = samples.filter_map(|sample| sample.completed(selector));
    let attributes = complete.next().unwrap_or_else(|| {
        let mut sample = SampleRequest::default();
        sample.0.insert("client_ip".into(), ADDRESS.into());
        sample
    });
    let members = attributes.0.iter();
    let members = members.map(|(name, value)| format!("{}: {value}", Json::from(name.as_str())));
    let members: Vec<String> = members.collect();
    format!(r#"{{"attributes": {{{}}}}}"#, members.join(", "))
}

/// An address for documentation (RFC 5737).
const ADDRESS: &str = "203.0.113.7";

impl SampleRequest {
    /// A request that meets the conditions of a limit and has its key.
    fn new(limit: &LimitConfig) -> Self {
        let mut sample = Self::default();
        for condition in &limit.conditions {
            let value = condition.any_of.first().map(sample_text);
            let value = value.unwrap_or_default();
            let name = condition.attribute.name().to_owned();
            sample.0.insert(name, value.into());
        }
        for key in limit.key.parts.iter().filter_map(|part| part.first()) {
            sample.add(key.attribute());
        }
        sample
    }

    /// The request with what other limits need of it. None if it meets no limit.
    fn completed(mut self, selector: &Selector) -> Option<Self> {
        for _ in 0..ADDED_MAX {
            match selector.select(&self, None, MissingKeyPolicy::Error) {
                Ok(selection) => return (!selection.is_empty()).then_some(self),
                Err(SelectError::MissingAttribute { attribute, .. }) => {
                    let first = attribute.split(" | ").next()?;
                    self.add(&first.parse().ok()?);
                }
                Err(_) => return None,
            }
        }
        None
    }

    fn add(&mut self, attribute: &Attribute) {
        let value = match attribute.kind() {
            AttributeKind::ClientIp => ADDRESS,
            AttributeKind::Method => "GET",
            AttributeKind::Path => "/",
            AttributeKind::Host => "example.com",
            _ => "example",
        };
        let name = attribute.name().to_owned();
        self.0.entry(name).or_insert_with(|| value.into());
    }
}

/// A text that the pattern matches.
fn sample_text(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Exact(text) => text.to_string(),
        // A digit fits into a path, a host and an address.
        Pattern::Glob(glob) => glob.as_str().replace("**", "*").replace('*', "1"),
    }
}

impl Attributes for SampleRequest {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let text = self.0.get(attribute.name())?.as_str()?;
        Some(Value::Text(Cow::Borrowed(text)))
    }
}

#[cfg(test)]
mod tests {
    use tollgate_rules::Config;

    use super::*;

    fn sample(limits: &str) -> String {
        let config = Config::parse(&format!("limits: [{limits}]"), "", &|_| None);
        body(&Selector::new(&config.unwrap()))
    }

    const QUOTA: &str = "algorithm: fixed_window, limit: 1, window: 1s";

    #[test]
    fn the_sample_meets_the_first_limit() {
        let built_in = body(&Selector::new(&Config::built_in()));
        assert_eq!(built_in, r#"{"attributes": {"client_ip": "203.0.113.7"}}"#);

        let login = format!(
            "{{name: a, match: {{method: POST, path: '/v1/**'}}, key: ['header:x-k | client_ip'], {QUOTA}}}, \
             {{name: b, key: [tenant], {QUOTA}}}, {{name: c, key: [x], optional: true, {QUOTA}}}"
        );
        assert_eq!(
            sample(&login),
            r#"{"attributes": {"header:x-k": "example", "method": "POST", "path": "/v1/1", "tenant": "example"}}"#
        );
    }

    #[test]
    fn a_limit_that_nothing_meets_is_passed_over() {
        let limits = format!(
            "{{name: a, match: {{host: 'h:80'}}, key: [], {QUOTA}}}, {{name: b, match: {{path: /b}}, key: [], {QUOTA}}}"
        );
        assert_eq!(sample(&limits), r#"{"attributes": {"path": "/b"}}"#);
    }
}
