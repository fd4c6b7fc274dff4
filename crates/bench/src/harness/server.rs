//! Temporary store servers: which one to start, how to connect, its version and its script calls;
//! and how this program serves when it is a server itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use testkit::reverse_proxy::{self, Response};
use testkit::servers::{Flavor, Server};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tollgate_redis::{RedisBuilder, RedisStore};

/// The timeout of a store call.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
/// How long a store may take to connect.
const PATIENCE: Duration = Duration::from_secs(5);

/// The store server to start, as named on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kind {
    Redis,
    Valkey,
}

impl Kind {
    pub(crate) const fn flavor(self) -> Flavor {
        match self {
            Self::Redis => Flavor::Redis,
            Self::Valkey => Flavor::Valkey,
        }
    }
}

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
    let store = builder.timeout(TIMEOUT).build()?;
    ensure!(store.ready(PATIENCE).await, "the store did not connect");
    Ok(store)
}

/// Sends a JSON request on a connection of its own.
pub(crate) fn post_json(server: SocketAddr, path: &str, body: &str) -> Response {
    let json = [("content-type", "application/json")];
    reverse_proxy::send(server, "POST", path, &json, body.as_bytes())
}

/// The server's name and version.
pub(crate) fn version(server: &Server) -> String {
    let info = server.command(&["INFO", "server"]);
    let text = info.as_str().unwrap_or_default();
    parse_version(text).unwrap_or_else(|| format!("{:?} of unknown version", server.flavor()))
}

/// The number of scripts that the server has run since it started.
pub(crate) fn scripts_run(server: &Server) -> u64 {
    let info = server.command(&["INFO", "commandstats"]);
    parse_scripts(info.as_str().unwrap_or_default())
}

/// Valkey also reports the version of Redis it is compatible with.
fn parse_version(info: &str) -> Option<String> {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let valkey = field("valkey_version:").map(|version| format!("Valkey {version}"));
    valkey.or_else(|| field("redis_version:").map(|version| format!("Redis {version}")))
}

/// Scripts are called by text or by hash.
fn parse_scripts(info: &str) -> u64 {
    let called = |line: &str| {
        let (command, numbers) = line.split_once(":calls=")?;
        let is_script = ["cmdstat_eval", "cmdstat_evalsha"].contains(&command);
        let (calls, _) = numbers.split_once(',').filter(|_| is_script)?;
        calls.parse::<u64>().ok()
    };
    info.lines().filter_map(called).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_the_server() {
        let redis = "# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n";
        assert_eq!(parse_version(redis).as_deref(), Some("Redis 7.0.15"));
        let valkey = "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n";
        assert_eq!(parse_version(valkey).as_deref(), Some("Valkey 9.1.2"));
        assert_eq!(parse_version(""), None);
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
