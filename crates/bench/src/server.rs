//! Throwaway servers: which to start, and what they say about themselves.

use clap::ValueEnum;
use testkit::servers::{Flavor, Server};

/// Whose server is started, as it is named on the command line.
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

/// The server and its version, as it says.
pub(crate) fn version(server: &Server) -> String {
    let info = server.command(&["INFO", "server"]);
    let text = info.as_str().unwrap_or_default();
    parse_version(text).unwrap_or_else(|| format!("{:?} of unknown version", server.flavor()))
}

/// How many scripts it has run since it began.
pub(crate) fn scripts_run(server: &Server) -> u64 {
    let info = server.command(&["INFO", "commandstats"]);
    parse_scripts(info.as_str().unwrap_or_default())
}

/// Valkey also says which version of Redis it takes after.
fn parse_version(info: &str) -> Option<String> {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let valkey = field("valkey_version:").map(|version| format!("Valkey {version}"));
    valkey.or_else(|| field("redis_version:").map(|version| format!("Redis {version}")))
}

/// Scripts are called by their text or by its hash.
fn parse_scripts(info: &str) -> u64 {
    let called = |line: &str| {
        let (command, numbers) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let (calls, _) = numbers.split_once(',')?;
        if ["eval", "evalsha"].contains(&command) {
            calls.parse::<u64>().ok()
        } else {
            None
        }
    };
    info.lines().filter_map(called).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_what_it_is() {
        let redis = "# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n";
        assert_eq!(parse_version(redis).as_deref(), Some("Redis 7.0.15"));
        let valkey = "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n";
        assert_eq!(parse_version(valkey).as_deref(), Some("Valkey 9.1.2"));
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn scripts_are_counted_and_what_they_call_is_not() {
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
