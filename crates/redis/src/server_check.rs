//! Checks whether a server may forget counters: one that evicts keys when its memory is full.
//!
//! Each link checks its own server when it connects, and later on a connection that is opened for
//! each check, so no decision waits behind it.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use crate::connector::{Connector, RespConnection};
use crate::endpoint::Address;
use crate::error::ServerError;
use crate::log;
use crate::resp::RespValue;

/// The first version, major and minor, that has all commands of the scripts (`ZMSCORE`).
const VERSION_MIN: (u32, u32) = (6, 2);
/// The default interval of the checks. A server with a thousand replicas gets 33 of them per
/// second.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// What the checks of a link have found so far.
#[derive(Default)]
pub(crate) struct ServerCheck {
    findings: Mutex<CheckFindings>,
}

#[derive(Default)]
struct CheckFindings {
    /// The server that was checked last, and how many keys it had evicted since its start.
    last: Option<(Address, u64)>,
    /// Keys that servers have evicted between checks.
    evicted_keys: u64,
    warning: Option<StoreWarning>,
}

/// Why a server may forget counters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoreWarning {
    server: Address,
    reason: WarningReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WarningReason {
    /// The server evicts keys when its memory is full.
    MayEvict(MemorySettings),
    /// The same, and it has evicted keys while it was checked.
    Evicts(MemorySettings),
    /// The server does not say.
    Unknown(ServerError),
}

/// How much memory a server may use, and what it does then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemorySettings {
    /// In bytes. 0 for no limit.
    maxmemory: u64,
    policy: String,
}

/// What a server replies to a check.
pub(crate) enum CheckReply {
    Report {
        /// The version of Redis with which the server is compatible. Empty if it does not say.
        version: String,
        settings: MemorySettings,
        /// Keys evicted since the server's start.
        evicted_keys: u64,
    },
    Refused(ServerError),
}

impl ServerCheck {
    /// Keys that the server has evicted while this link was connected to it.
    pub(crate) fn evicted_keys(&self) -> u64 {
        self.findings.lock().evicted_keys
    }

    /// Why the server may forget counters, for an operator. `None` if it does not.
    pub(crate) fn warning(&self) -> Option<String> {
        let warning = self.findings.lock().warning.clone();
        warning.map(|warning| warning.to_string())
    }

    /// Checks the server for as long as the link is connected to it.
    pub(crate) async fn watch(&self, connector: &Connector, server: &Address) -> Infallible {
        loop {
            sleep(connector.check_interval).await;
            let query = async {
                let mut connection = connector.open(server).await?;
                connector.authenticate(&mut connection).await?;
                CheckReply::query(&mut connection).await
            };
            // If the server cannot be reached, the link notices.
            if let Ok(reply) = connector.within_timeout(server, query).await {
                self.record(server, reply);
            }
        }
    }

    /// Records the reply of a server, and logs a warning that was not there before.
    pub(crate) fn record(&self, server: &Address, reply: CheckReply) {
        let mut findings = self.findings.lock();
        let reason = match reply {
            CheckReply::Report {
                settings,
                evicted_keys,
                ..
            } => {
                findings.count_evictions(server, evicted_keys);
                settings.warning_reason(findings.evicted_keys > 0)
            }
            CheckReply::Refused(error) => Some(WarningReason::Unknown(error)),
        };

        let warning = reason.map(|reason| StoreWarning {
            server: server.clone(),
            reason,
        });
        if warning != findings.warning {
            warning.iter().for_each(log::may_forget);
            findings.warning = warning;
        }
    }
}

impl CheckFindings {
    /// Counts what was evicted since the last check of the same server.
    fn count_evictions(&mut self, server: &Address, evicted_keys: u64) {
        let last = self.last.replace((server.clone(), evicted_keys));
        if let Some((last_server, last_evicted)) = last
            && last_server == *server
        {
            // A server that was restarted counts from 0.
            let before = Some(last_evicted).filter(|before| *before <= evicted_keys);
            self.evicted_keys += evicted_keys - before.unwrap_or(0);
        }
    }
}

impl MemorySettings {
    fn warning_reason(self, has_evicted: bool) -> Option<WarningReason> {
        if self.maxmemory == 0 || self.policy == "noeviction" {
            None
        } else if has_evicted {
            Some(WarningReason::Evicts(self))
        } else {
            Some(WarningReason::MayEvict(self))
        }
    }
}

impl fmt::Display for StoreWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.server;
        let (settings, verb) = match &self.reason {
            WarningReason::MayEvict(settings) => (settings, "evicts keys when its memory is full"),
            WarningReason::Evicts(settings) => (settings, "has evicted keys to free memory"),
            WarningReason::Unknown(error) => {
                return write!(
                    f,
                    "cannot find out whether the store's server {server} evicts keys: INFO: \
                     {error}; allow the command (+info), and set maxmemory-policy noeviction"
                );
            }
        };

        let MemorySettings { maxmemory, policy } = settings;
        write!(
            f,
            "the store's server {server} {verb} (maxmemory {maxmemory}, maxmemory-policy \
             {policy}), and a client whose counter is evicted has its full limit again; set \
             maxmemory-policy noeviction"
        )
    }
}

impl CheckReply {
    /// Asks a server for its version and settings.
    pub(crate) async fn query(connection: &mut RespConnection) -> Result<Self, ServerError> {
        let read_reply = |reply: &RespValue<'_>| match reply {
            RespValue::Error(text) => Self::Refused(ServerError::from_reply(text)),
            reply => Self::from_info(reply.as_text().unwrap_or_default()),
        };
        connection.exchange(&[b"INFO"], read_reply).await
    }

    /// Fails if the server is too old. One that does not tell its version is tried.
    pub(crate) fn require_version(&self) -> Result<(), ServerError> {
        let Self::Report { version, .. } = self else {
            return Ok(());
        };
        let mut numbers = version.split('.').map_while(|number| number.parse().ok());
        let found = numbers.next().zip(numbers.next());
        if found.is_none_or(|found| found >= VERSION_MIN) {
            return Ok(());
        }

        let (major, minor) = VERSION_MIN;
        Err(ServerError::new(format!(
            "the server has version {version}, which lacks commands that Tollgate needs; use \
             Redis {major}.{minor} or later, or Valkey"
        )))
    }

    /// Parses the text of `INFO`. A field that a server does not have counts as 0 or empty.
    fn from_info(info: &str) -> Self {
        let number = |name| field(info, name).and_then(|value| value.parse().ok());
        Self::Report {
            version: plain_word(field(info, "redis_version").unwrap_or_default()),
            settings: MemorySettings {
                maxmemory: number("maxmemory").unwrap_or(0),
                policy: plain_word(field(info, "maxmemory_policy").unwrap_or("unknown")),
            },
            evicted_keys: number("evicted_keys").unwrap_or(0),
        }
    }
}

/// The value of a field in the text of `INFO`.
fn field<'t>(info: &'t str, name: &str) -> Option<&'t str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// The beginning of a word that a server sent, as far as it is one.
fn plain_word(text: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-.".contains(*c);
    text.chars().take_while(is_plain).take(32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(maxmemory: u64, policy: &str) -> MemorySettings {
        MemorySettings {
            maxmemory,
            policy: policy.to_owned(),
        }
    }

    fn record(check: &ServerCheck, port: u16, policy: &str, evicted_keys: u64) -> Option<String> {
        let reply = CheckReply::Report {
            version: String::new(),
            settings: settings(1 << 20, policy),
            evicted_keys,
        };
        check.record(&Address::new("h", port), reply);
        check.warning()
    }

    #[test]
    fn only_a_server_that_evicts_is_warned_about() {
        for policy in [
            "allkeys-lru",
            "allkeys-random",
            "volatile-lru",
            "volatile-ttl",
        ] {
            assert!(settings(1, policy).warning_reason(false).is_some());
            assert!(settings(0, policy).warning_reason(false).is_none());
        }
        assert!(settings(1, "noeviction").warning_reason(true).is_none());
    }

    #[test]
    fn evictions_are_counted_from_check_to_check() {
        let check = ServerCheck::default();
        let warning = record(&check, 1, "allkeys-lru", 700).expect("it may evict");
        assert!(warning.contains("h:1 evicts keys when"), "{warning}");
        assert_eq!(check.evicted_keys(), 0, "evicted before");

        let warning = record(&check, 1, "allkeys-lru", 705).expect("it evicts");
        assert!(warning.contains("h:1 has evicted keys"), "{warning}");
        record(&check, 1, "allkeys-lru", 2);
        assert_eq!(check.evicted_keys(), 7, "the server was restarted");
        record(&check, 2, "allkeys-lru", 90);
        assert_eq!(check.evicted_keys(), 7, "the other server evicted before");

        assert_eq!(record(&check, 2, "noeviction", 90), None);
        assert_eq!(check.evicted_keys(), 7);
    }

    #[test]
    fn info_is_parsed_and_nothing_else_of_it_is_shown() {
        let info = "redis_version:7.0.15\r\n# Memory\r\nmaxmemory:3145728\r\nmaxmemory_human:3.00M\r\n\
                    maxmemory_policy:allkeys-lru\r\n# Stats\r\nevicted_keys:12\r\n";
        let CheckReply::Report {
            version,
            settings,
            evicted_keys,
        } = CheckReply::from_info(info)
        else {
            panic!("a report")
        };
        assert_eq!(settings, self::settings(3_145_728, "allkeys-lru"));
        assert_eq!((&*version, evicted_keys), ("7.0.15", 12));

        assert_eq!(plain_word("all\u{202e}keys"), "all");
        assert_eq!(plain_word(&"x".repeat(99)).len(), 32);
    }

    #[test]
    fn a_server_that_lacks_commands_is_refused() {
        let require = |version: &str| {
            CheckReply::from_info(&format!("redis_version:{version}\r\n")).require_version()
        };
        for version in ["6.2.0", "7.0.15", "10.0.1", "255.255.255", "unstable", ""] {
            assert_eq!(require(version), Ok(()), "{version}");
        }
        for version in ["6.0.16", "5.0.7", "3.2.12"] {
            let error = require(version).expect_err("too old").to_string();
            let expected = format!("the server has version {version}, which lacks commands");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn a_refusal_is_a_warning() {
        let check = ServerCheck::default();
        let error = ServerError::from_reply(b"NOPERM this user has no permissions");
        check.record(&Address::new("h", 1), CheckReply::Refused(error));
        let warning = check.warning().expect("unknown");
        assert!(
            warning.contains("NOPERM") && warning.contains("+info"),
            "{warning}"
        );
    }
}
