//! The command line. Doc comments of arguments and commands are the help texts.

use crate::commands::{
    actions::{BlockArgs, ExemptArgs, OverrideArgs, ShadowArgs},
    audit_paths::AuditPathsArgs,
    check::CheckArgs,
    completions::CompletionsArgs,
    explain::ExplainArgs,
    import::ImportArgs,
    keys::KeysArgs,
    load::LoadArgs,
    reserve::{CancelArgs, ReserveArgs, SettleArgs},
    simulate::SimulateArgs,
    validate::ValidateArgs,
};
use crate::help;
use crate::serve::ServeArgs;

/// Distributed rate limiter with exact limits.
#[derive(Debug, clap::Parser)]
#[command(name = "tollgate", version, after_long_help = help::TOLLGATE)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, clap::Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Run the service: HTTP API, forward-auth, Envoy rate limit service, admin port
    #[command(after_long_help = help::SERVE)]
    Serve(ServeArgs),
    /// Validate configuration files and report every mistake
    #[command(after_long_help = help::VALIDATE)]
    Validate(ValidateArgs),
    /// Show which limits apply to a request, with which key, and why the others do not
    #[command(after_long_help = help::EXPLAIN)]
    Explain(ExplainArgs),
    /// Check a request against a running service
    #[command(after_long_help = help::CHECK)]
    Check(CheckArgs),
    /// Charge an estimate, to be settled when the actual cost is known
    #[command(after_long_help = help::RESERVE)]
    Reserve(ReserveArgs),
    /// Charge the actual cost of a reservation, instead of its estimate
    #[command(after_long_help = help::SETTLE)]
    Settle(SettleArgs),
    /// Return everything that a reservation has charged
    #[command(after_long_help = help::CANCEL)]
    Cancel(CancelArgs),
    /// Show or reset what a key has used of a limit, or list the heaviest keys
    #[command(after_long_help = help::KEYS)]
    Keys(KeysArgs),
    /// Block a key under a limit for a time, on every replica
    #[command(after_long_help = help::BLOCK)]
    Block(BlockArgs),
    /// Exempt a key from a limit for a time, on every replica
    #[command(after_long_help = help::EXEMPT)]
    Exempt(ExemptArgs),
    /// Give a key other numbers of a limit for a time, on every replica
    #[command(after_long_help = help::OVERRIDE)]
    Override(OverrideArgs),
    /// Switch a limit to shadow for a time, or back, on every replica
    #[command(after_long_help = help::SHADOW)]
    Shadow(ShadowArgs),
    /// Send load to a service or an application, and verify that its limits hold
    #[command(after_long_help = help::LOAD)]
    Load(LoadArgs),
    /// Replay an access log, and report which requests a configuration would have denied
    #[command(after_long_help = help::SIMULATE)]
    Simulate(SimulateArgs),
    /// Send variants of a request to your own stack, and report those that a limit does not count
    #[command(after_long_help = help::AUDIT_PATHS)]
    AuditPaths(AuditPathsArgs),
    /// Translate the limits of Envoy's rate limit service, Limitador, nginx or Kong
    #[command(after_long_help = help::IMPORT)]
    Import(ImportArgs),
    /// Print a shell completion script
    #[command(after_long_help = help::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print the JSON schema of the configuration file, for editors
    #[command(after_long_help = help::SCHEMA)]
    Schema,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
