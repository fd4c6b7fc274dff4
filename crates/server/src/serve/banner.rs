//! The text printed at start: the service's addresses, and a command to try.

use std::fmt::Write as _;
use std::net::SocketAddr;

use tollgate_rules::Config;

/// The lines to print.
pub(super) fn text(
    config: &Config,
    store: &str,
    http: SocketAddr,
    grpc: SocketAddr,
    admin: SocketAddr,
) -> String {
    let count = config.limits.len();
    let limits = if count == 1 {
        "1 limit".to_owned()
    } else {
        format!("{count} limits")
    };

    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "tollgate {}: {limits}, store: {store}",
        env!("CARGO_PKG_VERSION")
    );
    let _ = writeln!(text, "  http   http://{http}");
    let _ = writeln!(text, "  grpc   http://{grpc}");
    let _ = writeln!(text, "  admin  http://{admin}");
    let _ = writeln!(
        text,
        "try:  curl -i http://{http}/v1/check \
         -d '{{\"attributes\": {{\"client_ip\": \"203.0.113.7\"}}}}'"
    );
    text
}
