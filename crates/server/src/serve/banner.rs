//! What is printed at the start: where to find the service, and one line to try it with.

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
    let mut text = String::new();
    let count = config.limits.len();
    let limits = if count == 1 {
        "1 limit".to_owned()
    } else {
        format!("{count} limits")
    };
    // Writing into a string does not fail.
    let _ = writeln!(
        text,
        "tollgate {}: {limits}, counted in {store}",
        env!("CARGO_PKG_VERSION")
    );
    let _ = writeln!(text, "  http   http://{http}");
    let _ = writeln!(text, "  grpc   http://{grpc}");
    let _ = writeln!(text, "  admin  http://{admin}");
    let _ = writeln!(
        text,
        "try:  curl -i http://{http}/v1/check -d '{{\"attributes\": {{\"client_ip\": \"203.0.113.7\"}}}}'"
    );
    text
}
