//! What can be typed after `tollgate`. The comments here are the help texts.

pub(crate) mod help;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::commands::{
    CheckArgs, CompletionsArgs, ExplainArgs, KeysArgs, LoadArgs, SimulateArgs, ValidateArgs,
};

/// Exact rate limiting, as a service and as a tool.
#[derive(Debug, clap::Parser)]
#[command(name = "tollgate", version, after_long_help = help::TOLLGATE)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// One of the things the binary does.
#[derive(Debug, clap::Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Start the service: HTTP decisions and forward-auth, Envoy's gRPC, administration
    #[command(after_long_help = help::SERVE)]
    Serve(ServeArgs),
    /// Say whether a configuration is right, and if not, everything that is wrong with it
    #[command(after_long_help = help::VALIDATE)]
    Validate(ValidateArgs),
    /// Say which limits a request meets, with which key, and why not the others
    #[command(after_long_help = help::EXPLAIN)]
    Explain(ExplainArgs),
    /// Ask a running service for one decision
    #[command(after_long_help = help::CHECK)]
    Check(CheckArgs),
    /// Look at what was counted for a caller, or forget it
    #[command(after_long_help = help::KEYS)]
    Keys(KeysArgs),
    /// Load a service or an application from many clients, and see whether its limits hold
    #[command(after_long_help = help::LOAD)]
    Load(LoadArgs),
    /// Say what a configuration would have refused of the requests in an access log
    #[command(after_long_help = help::SIMULATE)]
    Simulate(SimulateArgs),
    /// Print what a shell needs to complete the command line
    #[command(after_long_help = help::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print the JSON schema of configurations, for editors
    #[command(after_long_help = help::SCHEMA)]
    Schema,
}

/// How to start the service.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// The configuration; without one, 100 requests per minute and client address, counted in
    /// memory
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where decisions and forward-auth are answered
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub http: SocketAddr,
    /// Where Envoy is answered
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    pub grpc: SocketAddr,
    /// Where operators are answered; any but a loopback address needs `TOLLGATE_ADMIN_TOKEN`
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090")]
    pub admin: SocketAddr,
    /// How logs are written; text on a terminal and JSON elsewhere, if nothing is said
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: one object a line.
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
