//! All commands: each, except `serve`, does one thing, prints the result and ends with an exit code.
//!
//! They use a running service over HTTP, as its clients do, and read the configuration as the
//! service does. They do not depend on how the service is run.

mod attributes;
mod check;
mod client;
mod completions;
mod configuration;
mod explain;
mod keys;
mod load;
mod numbers;
mod simulate;
mod terminal;
mod validate;

use std::process::ExitCode;

pub use attributes::AttributeArgs;
pub use check::CheckArgs;
pub use client::ClientArgs;
pub use completions::CompletionsArgs;
pub use explain::ExplainArgs;
pub use keys::{KeyArgs, KeysArgs, KeysCommand};
pub use load::LoadArgs;
pub use simulate::{LogLayout, SimulateArgs};
pub use validate::ValidateArgs;

pub(crate) use check::run as check;
pub(crate) use completions::{completions, schema};
pub(crate) use explain::run as explain;
pub(crate) use keys::run as keys;
pub(crate) use load::run as load;
pub(crate) use simulate::run as simulate;
pub(crate) use validate::run as validate;

use crate::serve::{self, ServeArgs};

/// The result of a command as an exit code. The codes are stable: scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success; for a decision, allowed.
    Done = 0,
    /// Denied, or a limit was exceeded.
    Denied = 1,
    /// Invalid arguments, configuration or request.
    Invalid = 2,
    /// The service did not respond, or made no decision.
    NoResponse = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct CommandError {
    exit: Exit,
    reason: String,
    /// The body of the service's response, which `--json` prints.
    response: Option<serde_json::Value>,
}

/// Invalid arguments, configuration or request.
fn invalid(reason: impl Into<String>) -> CommandError {
    CommandError {
        exit: Exit::Invalid,
        reason: reason.into(),
        response: None,
    }
}

/// The service did not respond, or made no decision.
fn no_response(reason: impl Into<String>) -> CommandError {
    CommandError {
        exit: Exit::NoResponse,
        ..invalid(reason)
    }
}

impl CommandError {
    /// Adds the response that caused the error, if it is a JSON object.
    fn with_response(self, response: &client::ServiceResponse) -> Self {
        Self {
            response: response.json().filter(serde_json::Value::is_object),
            ..self
        }
    }
}

/// Runs the service until a signal stops it.
pub(crate) fn serve(args: &ServeArgs) -> ExitCode {
    let result = serve::run(args).map(|()| (String::new(), Exit::Done));
    finish(result.map_err(invalid), false)
}

/// The text for standard output and the exit code, or why the command failed.
type CommandResult = Result<(String, Exit), CommandError>;

/// The output of a command: `value` as JSON, or the lines of `text`.
fn output(
    json: bool,
    value: &impl serde::Serialize,
    text: impl FnOnce() -> Vec<String>,
    exit: Exit,
) -> CommandResult {
    let mut lines = if json {
        let text = serde_json::to_string(value);
        vec![text.map_err(|error| no_response(format!("cannot write the output: {error}")))?]
    } else {
        text()
    };

    // Every line ends with a line break, the last one too.
    lines.push(String::new());
    Ok((lines.join("\n"), exit))
}

/// Prints the result of a command and returns its exit code. With `json`, an error is also printed
/// as an object on standard output.
fn finish(result: CommandResult, json: bool) -> ExitCode {
    let (text, exit) = result.unwrap_or_else(|error| {
        let CommandError {
            exit,
            reason,
            response,
        } = error;
        terminal::print_error(&format!("error: {reason}"));
        let object = response.unwrap_or_else(|| serde_json::json!({ "error": reason }));
        let text = if json {
            format!("{object}\n")
        } else {
            String::new()
        };
        (text, exit)
    });

    match terminal::print(&text) {
        Ok(()) => exit.into(),
        Err(error) => {
            terminal::print_error(&format!("error: cannot write the output: {error}"));
            Exit::NoResponse.into()
        }
    }
}
