//! A primary and its replica, monitored by three Sentinels.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Builder, Flavor, Reply, Server};
use crate::wait;

const MASTER_NAME: &str = "tollgate";
/// The number of Sentinels, and how many of them must agree that the primary is down.
const SENTINELS: usize = 3;
const QUORUM: &str = "2";
/// How long the Sentinels may take to discover each other.
const MEET_LIMIT: Duration = Duration::from_secs(30);

/// How long a primary may be silent before a Sentinel considers it down, in milliseconds.
///
/// After each change of the primary a Sentinel waits [`PING_PERIOD_MS`] before its first ping to
/// the new one, and counts that as silence. If this value were not much longer, every failover
/// would cause the next.
const DOWN_AFTER_MS: &str = "700";
/// How often a Sentinel pings a server. A replica can be promoted if it has responded within five
/// times this period, and during a failover it is pinged only once a second.
const PING_PERIOD_MS: &str = "250";

/// Shortens waits that are not part of a failover: how often Sentinels announce themselves, query
/// the servers and each other, and how long a Sentinel pauses after it was starved of CPU time.
const HASTE: [&str; 12] = [
    "SENTINEL",
    "DEBUG",
    "PING-PERIOD",
    PING_PERIOD_MS,
    "PUBLISH-PERIOD",
    "200",
    "INFO-PERIOD",
    "500",
    "ASK-PERIOD",
    "200",
    "TILT-PERIOD",
    "1000",
];

/// Two servers and three Sentinels, killed when dropped.
#[derive(Debug)]
pub struct Sentinels {
    // Dropped first, so that they do not react to the end of the servers.
    watchers: Vec<Server>,
    primary: Server,
    replica: Server,
}

impl Sentinels {
    /// Starts all five and waits until every Sentinel knows the replica and the other Sentinels.
    ///
    /// A primary counts as down after 700 ms; a failover takes about one and a half seconds.
    ///
    /// # Panics
    ///
    /// If one does not start, or they do not discover each other.
    pub fn start(flavor: Flavor) -> Self {
        let primary = Server::start(flavor);
        let replica = Server::start(flavor);

        // A Sentinel learns about replicas from the primary and queries it rarely, so the replica
        // comes first.
        replica.must(&["REPLICAOF", "127.0.0.1", &primary.addr().port().to_string()]);
        wait_for_link(&replica);

        // The server must be a replica again after a restart. After a failover Sentinel rewrites
        // the configuration for that; here the test does.
        replica.must(&["CONFIG", "REWRITE"]);

        let watchers = (0..SENTINELS)
            .map(|_| start_sentinel(flavor, &primary))
            .collect();
        let all = Self {
            watchers,
            primary,
            replica,
        };

        wait::until_true(MEET_LIMIT, "the Sentinels to find each other", || {
            all.watchers.iter().all(knows_everyone)
        });

        all
    }

    /// The Sentinels' addresses as URLs, for a client's configuration.
    pub fn urls(&self) -> Vec<String> {
        self.watchers.iter().map(Server::url).collect()
    }

    /// The name of the primary in the Sentinels' configuration.
    pub fn master_name(&self) -> &'static str {
        MASTER_NAME
    }

    /// The server that was the primary at the start.
    pub fn primary(&self) -> &Server {
        &self.primary
    }

    /// The server that was the replica at the start.
    pub fn replica(&self) -> &Server {
        &self.replica
    }

    /// The Sentinels.
    pub fn sentinels(&self) -> &[Server] {
        &self.watchers
    }

    /// The current primary according to most of the Sentinels that respond.
    pub fn current_primary(&self) -> Option<&Server> {
        let mut votes: BTreeMap<i64, usize> = BTreeMap::new();
        for sentinel in self.watchers.iter().filter(|sentinel| sentinel.is_awake()) {
            let reply = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME]);
            if let Some(port) = reply.items().get(1).and_then(Reply::as_int) {
                *votes.entry(port).or_default() += 1;
            }
        }

        let (port, _) = votes.into_iter().max_by_key(|(_, count)| *count)?;
        [&self.primary, &self.replica]
            .into_iter()
            .find(|server| i64::from(server.addr().port()) == port)
    }
}

/// Waits until a replica is in sync with its primary.
pub(super) fn wait_for_link(replica: &Server) {
    wait::until_true(MEET_LIMIT, "a replica to follow its primary", || {
        replica
            .must(&["INFO", "replication"])
            .line("master_link_status")
            == Some("up")
    });
}

fn start_sentinel(flavor: Flavor, primary: &Server) -> Server {
    let monitor = format!(
        "monitor {MASTER_NAME} 127.0.0.1 {} {QUORUM}",
        primary.addr().port()
    );

    let sentinel = Builder::sentinel(flavor)
        .config("sentinel", &monitor)
        .config(
            "sentinel",
            &format!("down-after-milliseconds {MASTER_NAME} {DOWN_AFTER_MS}"),
        )
        .config("sentinel", &format!("failover-timeout {MASTER_NAME} 1000"))
        .start();

    sentinel.must(&HASTE);
    sentinel
}

fn knows_everyone(sentinel: &Server) -> bool {
    let master = sentinel.must(&["SENTINEL", "MASTER", MASTER_NAME]);
    let replicas = sentinel.must(&["SENTINEL", "REPLICAS", MASTER_NAME]);
    let others = (SENTINELS - 1).to_string();
    master.field("flags") == Some("master")
        && master.field("num-other-sentinels") == Some(&others)
        && replicas.items().iter().any(|replica| {
            replica.field("flags") == Some("slave")
                && replica.field("master-link-status") == Some("ok")
        })
}
