//! The arguments of `tollgate serve`. Their doc comments are the help texts.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::logs::LogFormat;

/// The longest name of a replica, in characters.
const NAME_MAX: usize = 100;

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
    /// Address of the RESP listener for Redis clients, such as 127.0.0.1:6380 [default: off]
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub resp: Option<SocketAddr>,
    /// Name of this replica in the fleet [default: host name and HTTP port]
    #[arg(long, value_name = "NAME", value_parser = replica_name)]
    pub name: Option<String>,
    /// Directory that keeps known actions over a restart [default: `STATE_DIRECTORY` of systemd]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Log format [default: text on a terminal, json otherwise]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// Parses the name of a replica.
fn replica_name(text: &str) -> Result<String, String> {
    let is_valid = (1..=NAME_MAX).contains(&text.chars().count());
    let is_shown = !text.chars().any(char::is_control);
    if !is_valid || !is_shown {
        return Err(format!("expected 1 to {NAME_MAX} printable characters"));
    }
    Ok(text.to_owned())
}

/// Parses the address of a listener.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected IP:PORT, such as 127.0.0.1:8080".to_owned())
}
