//! Temporary store servers: which one to start, how to connect, its version and its script calls;
//! and how this program serves when it is a server itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use testkit::reverse_proxy::{self, Response};
use testkit::servers::Server;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tollgate_redis::{RedisBuilder, RedisStore};

use super::text::or_dash;

/// The timeout of a store call.
pub(crate) const STORE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a store may take to connect.
const PATIENCE: Duration = Duration::from_secs(5);

/// The word before the address that [`serve`] prints.
pub(crate) const ANNOUNCED: &str = "listening";

/// Prints the address of a free port and serves on it until the process is killed.
pub(crate) fn serve<F: Future<Output = Result<()>>>(
    serve: impl FnOnce(TcpListener) -> F,
) -> Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        println!("{ANNOUNCED} {}", listener.local_addr()?);
        serve(listener).await
    })
}

/// Connects a store. Its timeout is long enough for any decision on a busy machine,
/// so that a busy machine makes it slow but does not cause fallback decisions.
pub(crate) async fn connect(builder: RedisBuilder) -> Result<RedisStore> {
    let store = builder.timeout(STORE_TIMEOUT).build()?;
    ensure!(store.ready(PATIENCE).await, "the store did not connect");
    Ok(store)
}

/// Sends a JSON request on a connection of its own.
pub(crate) fn post_json(server: SocketAddr, path: &str, body: &str) -> Response {
    let json = [("content-type", "application/json")];
    reverse_proxy::send(server, "POST", path, &json, body.as_bytes())
}

/// The server's name and version. Valkey also reports the version of Redis it is compatible with.
pub(crate) fn store_version(server: &Server) -> String {
    parse_version(&info(server, "server"))
}

fn parse_version(info: &str) -> String {
    let [valkey, redis] = ["valkey_version:", "redis_version:"].map(|name| field(info, name));
    match valkey {
        Some(version) => format!("Valkey {version}"),
        None => format!("Redis {}", or_dash(redis)),
    }
}

/// The number of scripts that the server has run since it started.
pub(crate) fn scripts_run(server: &Server) -> u64 {
    parse_scripts(&info(server, "commandstats"))
}

/// Scripts are called by text or by hash.
fn parse_scripts(info: &str) -> u64 {
    let names = ["cmdstat_eval:calls=", "cmdstat_evalsha:calls="];
    let calls = names.map(|name| field(info, name)?.split_once(',')?.0.parse::<u64>().ok());
    calls.into_iter().flatten().sum()
}

/// A section of what the server reports about itself.
pub(crate) fn info(server: &Server, section: &str) -> String {
    let info = server.command(&["INFO", section]);
    info.as_str().unwrap_or_default().to_owned()
}

/// What follows this name at the start of a line.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_the_server() {
        let redis = "# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n";
        assert_eq!(parse_version(redis), "Redis 7.0.15");
        let valkey = "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n";
        assert_eq!(parse_version(valkey), "Valkey 9.1.2");
        assert_eq!(parse_version(""), "Redis -");
    }

    #[test]
    fn only_script_calls_are_counted() {
        let calls = [
            "eval:calls=2,usec=9",
            "evalsha:calls=40,usec=9",
            "get:calls=80,usec=1",
        ];
        let info = format!(
            "# Commandstats\r\ncmdstat_{}\r\n",
            calls.join("\r\ncmdstat_")
        );
        assert_eq!((parse_scripts(&info), parse_scripts("")), (42, 0));
    }
}
