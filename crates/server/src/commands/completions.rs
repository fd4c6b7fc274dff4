//! `tollgate completions` and `tollgate schema`: files for shells and editors.

/// The JSON schema of the configuration.
pub(crate) const SCHEMA: &str = include_str!("../../../../docs/tollgate.schema.json");

/// Arguments of `tollgate completions`.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Name of the shell
    shell: clap_complete::Shell,
}

/// The completions of a command line for a shell.
pub(crate) fn script(args: &CompletionsArgs, mut command: clap::Command) -> String {
    // The generator panics if it cannot write, so it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tollgate", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
