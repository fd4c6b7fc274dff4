//! A request on the command line: its attributes, the limits to ask, and what it costs.

use serde_json::{Map, Value, json};

use super::attributes::AttributeArgs;
use super::outcome::{CommandError, invalid};

/// Arguments of commands that ask for a decision.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RequestArgs {
    /// URL of the HTTP listener, with http or https; `http://` may be omitted
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub(super) url: String,
    #[command(flatten)]
    request: AttributeArgs,
    /// Use this limit even if its `match` does not apply, instead of all limits that apply; may
    /// be repeated
    #[arg(long = "limit", short, value_name = "NAME")]
    limits: Vec<String>,
    /// Use this limit, which the service need not have configured; may be repeated
    ///
    /// A JSON object with the fields of a limit in the configuration file and a `key`, such as
    /// `{"name": "chat", "key": "ann", "algorithm": "sliding_window", "limit": 5, "window": "1m"}`.
    /// For a configured limit, `name` and `key` are enough.
    #[arg(verbatim_doc_comment, long = "inline", value_name = "JSON")]
    inline: Vec<String>,
    /// Cost of the request [default: the cost configured for the limit]
    #[arg(long, value_name = "N")]
    cost: Option<u64>,
    /// Tokens by their kind, such as `input=900`, for limits with `cost: { tokens: .. }`; may be
    /// repeated
    #[arg(long, value_name = "KIND=N", value_parser = token_count)]
    tokens: Vec<TokenCount>,
}

impl RequestArgs {
    /// The body of the request to the service.
    pub(super) fn body(&self) -> Result<Value, CommandError> {
        let attributes = self.request.read()?;
        let attributes = attributes
            .iter()
            .map(|(name, value)| (name.to_string(), Value::from(value)));

        let mut body = json!({ "attributes": attributes.collect::<Map<_, _>>() });
        let mut limits: Vec<Value> = self.limits.iter().cloned().map(Value::from).collect();
        for text in &self.inline {
            limits.push(inline_limit(text)?);
        }
        if !limits.is_empty() {
            body["limits"] = limits.into();
        }
        if let Some(cost) = self.cost {
            body["cost"] = cost.into();
        }
        add_tokens(&mut body, &self.tokens)?;
        Ok(body)
    }
}

/// A limit of the command line. The service reads its members.
fn inline_limit(text: &str) -> Result<Value, CommandError> {
    let example = "expected a JSON object, such as {\"name\": \"chat\", \"key\": \"ann\", \
                   \"algorithm\": \"sliding_window\", \"limit\": 5, \"window\": \"1m\"}";
    let limit: Value = serde_json::from_str(text)
        .map_err(|error| invalid(format!("--inline: {error}; {example}")))?;
    if limit.is_object() {
        Ok(limit)
    } else {
        Err(invalid(format!("--inline: {example}")))
    }
}

/// A number of tokens of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenCount {
    kind: String,
    count: u64,
}

/// Parses `KIND=N`.
pub(super) fn token_count(text: &str) -> Result<TokenCount, String> {
    let parsed = text.split_once('=').and_then(|(kind, count)| {
        let (kind, count) = (kind.to_owned(), count.parse().ok()?);
        (!kind.is_empty()).then_some(TokenCount { kind, count })
    });
    parsed.ok_or_else(|| "expected KIND=N, such as input=900".to_owned())
}

/// Adds tokens to the body of a request, if there are any.
pub(super) fn add_tokens(body: &mut Value, tokens: &[TokenCount]) -> Result<(), CommandError> {
    for TokenCount { kind, count } in tokens {
        if !body["tokens"][kind].is_null() {
            return Err(invalid(format!("--tokens: duplicate kind `{kind}`")));
        }
        body["tokens"][kind] = (*count).into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_a_kind_and_a_number() {
        let mut body = json!({});
        let tokens = ["input=900", "output=0"].map(|text| token_count(text).unwrap());
        add_tokens(&mut body, &tokens).unwrap();
        assert_eq!(body, json!({"tokens": {"input": 900, "output": 0}}));

        for wrong in [
            "",
            "900",
            "=900",
            "input=",
            "input=-1",
            "input=1.5",
            "a=b=1",
        ] {
            assert!(token_count(wrong).is_err(), "{wrong}");
        }
        let twice = add_tokens(&mut body, &[token_count("input=1").unwrap()]);
        assert!(twice.unwrap_err().reason.contains("duplicate kind `input`"));
    }
}
