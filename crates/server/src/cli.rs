//! What can be typed after `tollgate`. The comments here are the help texts.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Exact rate limiting, as a service and as a tool.
#[derive(Debug, clap::Parser)]
#[command(name = "tollgate", version)]
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
    Serve(ServeArgs),
}

/// How to start the service.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// The configuration; without one, 100 requests per minute and client address, counted in memory
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where decisions and forward-auth are answered
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub http: SocketAddr,
    /// Where Envoy is answered
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    pub grpc: SocketAddr,
    /// Where operators are answered; any but a loopback address needs TOLLGATE_ADMIN_TOKEN
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
