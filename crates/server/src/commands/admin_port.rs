//! Requests to the admin port, and what their responses have in common.
//!
//! The members of a response are printed one by one, so that services of other versions can be
//! queried too.

use hyper::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::{Map, Value};

use super::client::{self, ClientArgs, ServiceResponse};
use super::numbers;
use super::outcome::{CommandError, invalid, no_response};
use super::terminal::plain;

/// The variable with the token; the service reads its token from the same one.
pub(super) const TOKEN_VARIABLE: &str = "TOLLGATE_ADMIN_TOKEN";
/// The characters that must be escaped in a query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The members of a body.
pub(super) type Members = Map<String, Value>;

/// A text as part of a path or a query.
pub(super) fn escaped(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, ESCAPED)
}

/// Sends a request to the admin port at a URL, with the token of the first of these variables that
/// is set. Returns the object of a successful response.
pub(super) fn send(
    client: &ClientArgs,
    url: &str,
    variables: &[&str],
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Members, CommandError> {
    let service = client.connection.service(url, variables)?;
    let response = client::send(&service, client.timeout, method, path, body)?;
    parse(&response, service.authorization.is_some())
        .map_err(|error| error.with_response(response.json()))
}

/// The JSON object of a successful response; an empty body is an empty object.
fn parse(response: &ServiceResponse, had_token: bool) -> Result<Members, CommandError> {
    let status = response.status;
    if status.is_success() {
        return match response.json() {
            Some(Value::Object(body)) => Ok(body),
            _ if response.body.is_empty() => Ok(Map::new()),
            _ => Err(no_response(
                "the response is not from an admin port; is the URL right?",
            )),
        };
    }

    if status == StatusCode::UNAUTHORIZED {
        return Err(invalid(if had_token {
            "the token in TOLLGATE_ADMIN_TOKEN is not that of the service"
        } else {
            "the admin port requires a token; set TOLLGATE_ADMIN_TOKEN"
        }));
    }

    let detail = response.detail().map(|detail| format!(": {detail}"));
    let detail = detail.unwrap_or_default();
    if status.is_client_error() && !detail.is_empty() {
        return Err(invalid(format!(
            "the admin port rejected the request ({status}){detail}"
        )));
    }

    let is_unavailable = |body: Value| body["code"] == "store-unavailable";
    let problem = if response.json().is_some_and(is_unavailable) {
        "the store is unavailable"
    } else {
        "unexpected response from the admin port"
    };
    Err(no_response(format!("{problem} ({status}){detail}")))
}

/// The name of a member. Durations are printed with their units, so `_ms` is dropped.
pub(super) fn label(name: &str, value: &Value) -> String {
    let is_duration = value.is_u64() || value.is_null();
    let stem = name.strip_suffix("_ms").filter(|_| is_duration);
    plain(stem.unwrap_or(name))
}

/// The value of a member on one line.
pub(super) fn format_value(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        Value::Null => "none".to_owned(),
        Value::Number(number) if name.ends_with("_ms") => number
            .as_u64()
            .map_or_else(|| number.to_string(), numbers::length),
        Value::Array(parts) if name == "key" => format_key(parts),
        Value::Array(names) if name == "ignored" => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            format!("{} (the limit does not use this)", plain(&names.join(", ")))
        }
        Value::Object(lockout) if name == "lockout" => format_lockout(lockout),
        other => plain(&other.to_string()),
    }
}

/// A key, such as `client_ip = 203.0.113.7, email = ann@example.com`.
fn format_key(parts: &[Value]) -> String {
    if parts.is_empty() {
        return "one counter for all requests".to_owned();
    }
    let parts: Vec<String> = parts.iter().map(format_key_part).collect();
    parts.join(", ")
}

/// A part of a key, such as `client_ip = 203.0.113.7`.
fn format_key_part(part: &Value) -> String {
    let (Some(attribute), Some(value)) = (part["attribute"].as_str(), part["value"].as_str())
    else {
        return plain(&part.to_string());
    };

    let hash = if part["hashed"] == true {
        " (hash)"
    } else {
        ""
    };
    format!("{} = {}{hash}", plain(attribute), plain(value))
}

/// A lockout, such as `locked for 14m 59s, lockouts: 2` or `denials: 3, lockouts: 0`.
fn format_lockout(lockout: &Members) -> String {
    let number = |name: &str| lockout.get(name).and_then(Value::as_u64).unwrap_or(0);
    let state = match number("locked_ms") {
        0 => format!("denials: {}", number("denials")),
        millis => format!("locked for {}", numbers::length(millis)),
    };
    format!("{state}, lockouts: {}", number("level"))
}
