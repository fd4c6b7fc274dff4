//! The command line. Doc comments of arguments and commands are the help texts.

pub(crate) mod help;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::commands::{
    CheckArgs, CompletionsArgs, ExplainArgs, KeysArgs, LoadArgs, SimulateArgs, ValidateArgs,
};

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
    /// Show or reset what a key has used of a limit
    #[command(after_long_help = help::KEYS)]
    Keys(KeysArgs),
    /// Send load to a service or an application, and verify that its limits hold
    #[command(after_long_help = help::LOAD)]
    Load(LoadArgs),
    /// Replay an access log, and report which requests a configuration would have denied
    #[command(after_long_help = help::SIMULATE)]
    Simulate(SimulateArgs),
    /// Print a shell completion script
    #[command(after_long_help = help::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print the JSON schema of the configuration file, for editors
    #[command(after_long_help = help::SCHEMA)]
    Schema,
}

/// Arguments of `tollgate serve`.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// Configuration file [default: 100 requests per minute and client address, in memory]
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address of the HTTP listener: check API and forward-auth
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = listen_address)]
    pub http: SocketAddr,
    /// Address of the gRPC listener for Envoy's rate limit service
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081", value_parser = listen_address)]
    pub grpc: SocketAddr,
    /// Address of the admin listener: dashboard, admin API and metrics
    ///
    /// Any address other than loopback requires `TOLLGATE_ADMIN_TOKEN`.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090", value_parser = listen_address)]
    pub admin: SocketAddr,
    /// Log format [default: text on a terminal, json otherwise]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// Parses the address of a listener.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected IP:PORT, such as 127.0.0.1:8080".to_owned())
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Human-readable lines.
    Text,
    /// One JSON object per line.
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
