//! A primary and its replica, watched by three Sentinels.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Builder, Flavor, Reply, Server};
use crate::wait;

const MASTER_NAME: &str = "tollgate";
/// How many Sentinels there are, and how many of them must agree that the primary is down.
const SENTINELS: usize = 3;
const QUORUM: &str = "2";
/// How long everybody may take to find each other.
const MEET_LIMIT: Duration = Duration::from_secs(30);

/// How long a primary is silent before a Sentinel thinks it down, in milliseconds.
///
/// After each change of the primary a Sentinel waits [`PING_PERIOD_MS`] before it first speaks to
/// the new one, and counts that as silence. If this were not much longer, every change would cause
/// the next.
const DOWN_AFTER_MS: &str = "700";
/// How often a Sentinel speaks to a server. A replica is fit to take over if it was heard of within
/// five times this long, and during a fail-over it is asked only once a second.
const PING_PERIOD_MS: &str = "250";

/// What shortens the waits that are no part of a fail-over: how often Sentinels tell of themselves,
/// look at the servers and ask each other; and how long one rests that found itself starved of
/// processor time.
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
    // Dropped first, so that they do not see the servers go.
    watchers: Vec<Server>,
    primary: Server,
    replica: Server,
}

impl Sentinels {
    /// Starts all five and waits until every Sentinel knows the replica and the other Sentinels.
    ///
    /// A primary counts as down after 700 ms; a fail-over takes about one and a half seconds.
    ///
    /// # Panics
    ///
    /// When one does not start or they do not find each other.
    pub fn start(flavor: Flavor) -> Self {
        let primary = Server::start(flavor);
        let replica = Server::start(flavor);
        // A Sentinel learns of replicas from the primary and asks it seldom, so the replica comes
        // first.
        replica.must(&["REPLICAOF", "127.0.0.1", &primary.addr().port().to_string()]);
        wait_for_link(&replica);
        // As after a fail-over, where Sentinel has this written down, it is a replica again after a
        // restart.
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

    /// The name under which the Sentinels know the primary.
    pub fn master_name(&self) -> &'static str {
        MASTER_NAME
    }

    /// The server that was the primary in the beginning.
    pub fn primary(&self) -> &Server {
        &self.primary
    }

    /// The server that was the replica in the beginning.
    pub fn replica(&self) -> &Server {
        &self.replica
    }

    /// The Sentinels.
    pub fn sentinels(&self) -> &[Server] {
        &self.watchers
    }

    /// The server that most of the Sentinels which answer call the primary now.
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

/// Waits until a replica has its primary's data and follows it.
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
