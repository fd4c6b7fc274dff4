//! `tollgate completions` and `tollgate schema`: files for shells and editors.

use super::outcome::{CommandResult, Exit};

/// The JSON schema of the configuration.
const SCHEMA: &str = include_str!("../../../../docs/tollgate.schema.json");

/// Arguments of `tollgate completions`.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Name of the shell
    shell: clap_complete::Shell,
}

/// Prints the completions of a command line for a shell.
pub(crate) fn run(args: &CompletionsArgs, mut command: clap::Command) -> CommandResult {
    // The generator panics if it cannot write, so it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tollgate", &mut script);
    Ok((String::from_utf8_lossy(&script).into_owned(), Exit::Done))
}

pub(crate) fn schema() -> CommandResult {
    Ok((SCHEMA.to_owned(), Exit::Done))
}
