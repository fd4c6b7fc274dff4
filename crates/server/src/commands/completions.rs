//! `tollgate completions` and `tollgate schema`: what shells and editors want to know.

use std::process::ExitCode;

use clap::CommandFactory as _;

use super::{Exit, end};

/// What editors check configurations with.
const SCHEMA: &str = include_str!("../../../../docs/tollgate.schema.json");

/// For which shell.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn completions(args: &CompletionsArgs) -> ExitCode {
    // The generator panics when it cannot write, so it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut crate::Cli::command(),
        "tollgate",
        &mut script,
    );
    end(
        Ok((String::from_utf8_lossy(&script).into_owned(), Exit::Done)),
        false,
    )
}

pub(crate) fn schema() -> ExitCode {
    end(Ok((SCHEMA.to_owned(), Exit::Done)), false)
}
