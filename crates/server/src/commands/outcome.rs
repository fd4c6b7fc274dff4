//! How a command ends: its output and exit code, or why it failed.

use std::fmt::Display;
use std::process::ExitCode;

use tollgate_rules::text::visible_json;

use super::terminal;

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

impl Exit {
    /// The code of a decision or a verdict.
    pub(super) const fn denied_if(is_denied: bool) -> Self {
        if is_denied { Self::Denied } else { Self::Done }
    }
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
    pub(super) reason: String,
    /// The body of the service's response, which `--json` prints.
    response: Option<serde_json::Value>,
}

/// Invalid arguments, configuration or request.
pub(super) fn invalid(reason: impl Display) -> CommandError {
    CommandError {
        exit: Exit::Invalid,
        reason: reason.to_string(),
        response: None,
    }
}

/// The service did not respond, or made no decision.
pub(super) fn no_response(reason: impl Display) -> CommandError {
    CommandError {
        exit: Exit::NoResponse,
        ..invalid(reason)
    }
}

impl CommandError {
    /// Adds the response that caused the error, if it is a JSON object.
    pub(super) fn with_response(self, response: Option<serde_json::Value>) -> Self {
        Self {
            response: response.filter(serde_json::Value::is_object),
            ..self
        }
    }
}

/// The text for standard output and the exit code, or why the command failed.
pub(crate) type CommandResult = Result<(String, Exit), CommandError>;

/// The output of a command: `value` as JSON, or the lines of `text`.
pub(super) fn output(
    json: bool,
    value: &impl serde::Serialize,
    text: impl FnOnce() -> Vec<String>,
    exit: Exit,
) -> CommandResult {
    let mut lines = if json {
        let text = serde_json::to_string(value)
            .map_err(|error| no_response(format!("cannot write the output: {error}")))?;
        vec![visible_json(&text).into_owned()]
    } else {
        text()
    };

    // Every line ends with a line break, the last one too.
    lines.push(String::new());
    Ok((lines.join("\n"), exit))
}

/// Prints the result of a command and returns its exit code. With `json`, an error is also printed
/// as an object on standard output.
pub(crate) fn finish(result: CommandResult, json: bool) -> ExitCode {
    let (text, exit) = result.unwrap_or_else(|error| {
        let CommandError {
            exit,
            reason,
            response,
        } = error;
        terminal::print_error(&format!("error: {reason}"));
        let object = response.unwrap_or_else(|| serde_json::json!({ "error": reason }));
        let text = if json {
            visible_json(&format!("{object}\n")).into_owned()
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
