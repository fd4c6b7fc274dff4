//! What the requests of `tollgate keys` and their responses have in common.

use hyper::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use serde_json::{Map, Value};

use super::super::client::ServiceResponse;
use super::super::outcome::{CommandError, invalid, no_response};
use super::super::terminal::plain;

/// The variable with the token; the service reads its token from the same one.
pub(crate) const TOKEN_VARIABLE: &str = "TOLLGATE_ADMIN_TOKEN";
/// The characters that must be escaped in a query.
pub(crate) const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The JSON object of a successful response; an empty body is an empty object.
pub(crate) fn parse(
    response: &ServiceResponse,
    had_token: bool,
) -> Result<Map<String, Value>, CommandError> {
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

    let code = response.json().map(|body| body["code"].clone());
    let problem = if code.is_some_and(|code| code == "store-unavailable") {
        "the store is unavailable"
    } else {
        "unexpected response from the admin port"
    };
    Err(no_response(format!("{problem} ({status}){detail}")))
}

/// A key, such as `client_ip = 203.0.113.7, email = ann@example.com`.
pub(crate) fn format_key(key: &Value) -> String {
    let parts = key.as_array().map(Vec::as_slice).unwrap_or_default();
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
