//! `tollgate check`: one decision of a running service.
//!
//! The exit code follows the decision, not the HTTP status. A body with `allowed` is a decision,
//! even with status 503: then a limit denies because the store is unavailable and its failure
//! policy is `deny`. A 503 without a decision counts as no response.

mod decision_lines;

use std::process::ExitCode;

use hyper::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::attributes::{AttributeArgs, RequestAttributes};
use super::client::{self, ClientArgs, ServiceRequest, ServiceResponse};
use super::outcome::{CommandError, CommandResult, Exit, finish, invalid, no_response, output};

/// Arguments of `tollgate check`.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckArgs {
    /// URL of the HTTP listener, with http or https; `http://` may be omitted
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    #[command(flatten)]
    request: AttributeArgs,
    /// Check this limit even if its `match` does not apply, instead of all limits that apply; may
    /// be repeated
    #[arg(long = "limit", short, value_name = "NAME")]
    limits: Vec<String>,
    /// Check this limit, which the service need not have configured; may be repeated
    ///
    /// A JSON object with the fields of a limit in the configuration file and a `key`, such as
    /// `{"name": "chat", "key": "ann", "algorithm": "sliding_window", "limit": 5, "window": "1m"}`.
    /// For a configured limit, `name` and `key` are enough.
    #[arg(verbatim_doc_comment, long = "inline", value_name = "JSON")]
    inline: Vec<String>,
    /// Cost of the request [default: the cost configured for the limit]
    #[arg(long, value_name = "N")]
    cost: Option<u64>,
    /// Show the decision without consuming anything
    #[arg(long)]
    peek: bool,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    finish(check(args), args.client.json)
}

fn check(args: &CheckArgs) -> CommandResult {
    let connection = &args.client.connection;
    let service = connection.service(&args.url, &[client::TOKEN_VARIABLE])?;
    let body = body(&args.request.read()?, args)?;
    let request = ServiceRequest {
        method: Method::POST,
        path: if args.peek { "/v1/peek" } else { "/v1/check" },
        body: body.to_string().into_bytes(),
    };
    let response = client::send(&service, request, args.client.timeout)?;
    let decision = decision(&response)?;

    let exit = if is_allowed(&decision) == Some(true) {
        Exit::Done
    } else {
        Exit::Denied
    };
    let text = || decision_lines::lines(&decision, response.status, args.peek);
    output(args.client.json, &decision, text, exit)
}

fn body(attributes: &RequestAttributes, args: &CheckArgs) -> Result<Value, CommandError> {
    let attributes = attributes
        .iter()
        .map(|(name, value)| (name.to_string(), Value::from(value)));

    let mut body = json!({ "attributes": attributes.collect::<Map<_, _>>() });
    let mut limits: Vec<Value> = args.limits.iter().cloned().map(Value::from).collect();
    for text in &args.inline {
        limits.push(inline_limit(text)?);
    }
    if !limits.is_empty() {
        body["limits"] = limits.into();
    }
    if let Some(cost) = args.cost {
        body["cost"] = cost.into();
    }
    Ok(body)
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

fn is_allowed(decision: &Value) -> Option<bool> {
    decision.get("allowed")?.as_bool()
}

/// The decision in a response, or why it has none.
fn decision(response: &ServiceResponse) -> Result<Value, CommandError> {
    let status = response.status;
    if let Some(body) = response.json().filter(|body| is_allowed(body).is_some()) {
        return Ok(body);
    }

    // A 408 or 429 without a decision comes from a proxy or an overloaded service.
    let is_bad_request = status.is_client_error()
        && !matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
        );
    let error = match response.detail() {
        Some(detail) if is_bad_request => invalid(format!(
            "the service rejected the request ({status}): {detail}"
        )),
        Some(detail) => no_response(format!("the service made no decision ({status}): {detail}")),
        None => no_response(format!(
            "the response ({status}) is not a decision; is this the HTTP port of tollgate serve?"
        )),
    };
    Err(error.with_response(response.json()))
}
