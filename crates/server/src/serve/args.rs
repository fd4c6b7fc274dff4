//! The arguments of `tollgate serve`. Their doc comments are the help texts.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::logs::LogFormat;

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
    /// Log format [default: text on a terminal, json otherwise]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// Parses the address of a listener.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected IP:PORT, such as 127.0.0.1:8080".to_owned())
}
