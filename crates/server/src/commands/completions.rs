//! `tollgate completions` and `tollgate schema`: files for shells and editors.

use std::process::ExitCode;

use clap::CommandFactory as _;

use super::{Exit, finish};

/// The JSON schema of the configuration.
const SCHEMA: &str = include_str!("../../../../docs/tollgate.schema.json");

/// Arguments of `tollgate completions`.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Name of the shell
    shell: clap_complete::Shell,
}

pub(crate) fn completions(args: &CompletionsArgs) -> ExitCode {
    let mut command = crate::Cli::command();
    // The generator panics if it cannot write, so it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tollgate", &mut script);

    let script = String::from_utf8_lossy(&script).into_owned();
    finish(Ok((script, Exit::Done)), false)
}

pub(crate) fn schema() -> ExitCode {
    finish(Ok((SCHEMA.to_owned(), Exit::Done)), false)
}
