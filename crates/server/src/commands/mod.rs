//! The commands that are tools: each takes its arguments, does one thing, prints it and ends with
//! an exit code.
//!
//! They use the service as its clients do, over HTTP, and the configuration as the service does.
//! They know nothing of how the service is run.

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
pub(crate) mod terminal;
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

/// How a command ended. The numbers are fixed: scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; of a decision, that it allows.
    Done,
    /// A decision that denies, or a limit that was exceeded.
    Denied,
    /// The arguments, the configuration or the request are wrong.
    Wrong,
    /// Nobody answered, or not with what was asked for.
    NoAnswer,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::SUCCESS,
            Exit::Denied => Self::from(1),
            Exit::Wrong => Self::from(2),
            Exit::NoAnswer => Self::from(3),
        }
    }
}

/// Why a command has nothing to print.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    reason: String,
    /// What the service itself says about it, for programs.
    answer: Option<serde_json::Value>,
}

impl Failure {
    fn wrong(reason: impl Into<String>) -> Self {
        Self {
            exit: Exit::Wrong,
            reason: reason.into(),
            answer: None,
        }
    }

    fn no_answer(reason: impl Into<String>) -> Self {
        Self {
            exit: Exit::NoAnswer,
            reason: reason.into(),
            answer: None,
        }
    }

    /// With what came instead of an answer, where that is an object.
    fn with(self, answer: &client::Answer) -> Self {
        Self {
            answer: answer.json().filter(serde_json::Value::is_object),
            ..self
        }
    }
}

/// What a command prints on standard output, and how it ends.
type Printed = Result<(String, Exit), Failure>;

/// Prints what a command has to say, and ends it. With `json`, also a failure is an object on
/// standard output.
fn end(printed: Printed, json: bool) -> ExitCode {
    let (text, exit) = match printed {
        Ok(printed) => printed,
        Err(Failure {
            exit,
            reason,
            answer,
        }) => {
            terminal::complain(&format!("error: {reason}"));
            let object = || answer.unwrap_or_else(|| serde_json::json!({ "error": reason }));
            (
                if json {
                    format!("{}\n", object())
                } else {
                    String::new()
                },
                exit,
            )
        }
    };
    match terminal::print(&text) {
        Ok(()) => exit.into(),
        Err(error) => {
            terminal::complain(&format!("error: cannot write the output: {error}"));
            Exit::NoAnswer.into()
        }
    }
}
