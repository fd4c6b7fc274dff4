//! The decision of a running service about a request, and the exit code that follows from it.
//!
//! The exit code follows the decision, not the HTTP status. A body with `allowed` is a decision,
//! even with status 503: then a limit denies because the store is unavailable and its failure
//! policy is `deny`. A 503 without a decision counts as no response.

mod lines;

use hyper::{Method, StatusCode};
use serde_json::Value;

use super::client::{self, ClientArgs, ServiceResponse};
use super::outcome::{CommandError, CommandResult, Exit, invalid, no_response, output};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecisionKind {
    Check,
    /// A check that is charged whether it fits or not.
    Count,
    Peek,
    Reserve,
}

impl DecisionKind {
    const fn path(self) -> &'static str {
        match self {
            Self::Check | Self::Count => "/v1/check",
            Self::Peek => "/v1/peek",
            Self::Reserve => "/v1/reserve",
        }
    }
}

/// Sends a request and prints the decision.
pub(super) fn ask(
    kind: DecisionKind,
    url: &str,
    body: &Value,
    client: &ClientArgs,
) -> CommandResult {
    let response = post(kind.path(), url, body, client)?;
    let decision = response.json().filter(|body| body["allowed"].is_boolean());
    let decision = decision.ok_or_else(|| failure(&response, "decision"))?;

    let text = || lines::lines(&decision, response.status, kind);
    let exit = Exit::denied_if(decision["allowed"] == false);
    output(client.json, &decision, text, exit)
}

/// Sends a JSON body to a path of the service.
pub(super) fn post(
    path: &'static str,
    url: &str,
    body: &Value,
    client: &ClientArgs,
) -> Result<ServiceResponse, CommandError> {
    let service = client.connection.service(url, &[client::TOKEN_VARIABLE])?;
    client::send(&service, client.timeout, Method::POST, path, Some(body))
}

/// Why a response has no `result`.
pub(super) fn failure(response: &ServiceResponse, result: &str) -> CommandError {
    let status = response.status;
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
        Some(detail) => no_response(format!("the service made no {result} ({status}): {detail}")),
        None => no_response(format!(
            "the response ({status}) is not a {result}; is this the HTTP port of tollgate serve?"
        )),
    };
    error.with_response(response.json())
}
