//! Faults of a primary and its replica, and of the Sentinels that watch them.

use std::time::Duration;

use testkit::servers::{Flavor, Sentinels, Server};
use testkit::wait;
use tollgate_redis::RedisBuilder;

use super::figures::Memory;
use super::load::{Load, Plan};
use super::process::load_on;
use super::refusals::must;
use super::row::Row;
use super::subjects::KEYS;

/// How long servers may take to agree on a change.
const CHANGE_LIMIT: Duration = Duration::from_secs(20);

/// A load on whatever the Sentinels call the primary.
fn load_by_name(row: Row, group: &Sentinels) -> Load {
    let builder = || RedisBuilder::sentinel(group.urls(), group.master_name());
    Plan::new(row, builder(), builder()).start()
}

/// Waits until a server is in a role, in its own eyes: `master` or `slave`.
fn wait_for_role(server: &Server, role: &str) {
    wait::until_true(CHANGE_LIMIT, &format!("a server to be a {role}"), || {
        must(server, &["ROLE"])
            .items()
            .first()
            .and_then(|word| word.as_str())
            == Some(role)
    });
}

fn follow(replica: &Server, primary: &Server) {
    must(
        replica,
        &["REPLICAOF", "127.0.0.1", &primary.addr().port().to_string()],
    );
}

/// Waits until a replica has everything that its primary has. That the link is up does not say so:
/// for up to a second, a primary keeps what is new to itself. What is written from then on must be
/// seen to arrive.
pub(super) fn wait_for_replica(replica: &Server, primary: &Server) {
    wait::until_true(
        CHANGE_LIMIT,
        "a replica to have a link to its primary",
        || {
            let reply = must(replica, &["INFO", "replication"]);
            reply
                .as_str()
                .is_some_and(|text| text.contains("master_link_status:up"))
        },
    );
    // In a cluster, it is the primary of the first key.
    let marker = format!("{{=key-0}}from-{}-to-{}", primary.addr(), replica.addr());
    must(primary, &["SET", &marker, "1", "PX", "60000"]);
    wait::until_true(CHANGE_LIMIT, "a replica to follow its primary", || {
        replica.keys().iter().any(|key| key == marker.as_bytes())
    });
}

#[test]
#[ignore = "long: cargo xtask faults"]
fn sentinel_failover() {
    let row = Row::begin("Sentinel fail-over");
    let group = Sentinels::start(Flavor::Redis);
    wait_for_replica(group.replica(), group.primary());
    let mut load = load_by_name(row, &group);
    load.fails_over(0..KEYS);
    group.primary().kill();
    load.degrades();
    wait_for_role(group.replica(), "master");
    wait::until_true(
        CHANGE_LIMIT,
        "the Sentinels to name another primary",
        || {
            group
                .current_primary()
                .is_some_and(|primary| primary.addr() == group.replica().addr())
        },
    );
    load.recovers();
    load.stop()
        .figures(Memory::FailedOver, [group.replica()])
        .hold();
}

/// The old primary is well and goes on answering until it is told that it is one no more.
#[test]
#[ignore = "long: cargo xtask faults"]
fn sentinel_failover_on_demand() {
    let row = Row::begin("manual demotion by Sentinel");
    let group = Sentinels::start(Flavor::Valkey);
    wait_for_replica(group.replica(), group.primary());
    let mut load = load_by_name(row, &group);
    load.fails_over(0..KEYS);
    must(
        &group.sentinels()[0],
        &["SENTINEL", "FAILOVER", group.master_name()],
    );
    wait_for_role(group.replica(), "master");
    wait_for_role(group.primary(), "slave");
    load.recovers();
    load.stop()
        .figures(Memory::FailedOver, [group.replica()])
        .hold();
}

/// A server that has become a replica keeps its connections and refuses to write.
#[test]
fn manual_demotion() {
    let row = Row::begin("manual demotion (READONLY)");
    let (server, other) = (Server::start(Flavor::Redis), Server::start(Flavor::Redis));
    follow(&other, &server);
    wait_for_replica(&other, &server);
    let mut load = load_on(row, &server);
    load.fails_over(0..KEYS);
    must(&other, &["REPLICAOF", "NO", "ONE"]);
    follow(&server, &other);
    load.complains_of("READONLY");
    load.decides(500);
    wait_for_replica(&server, &other);
    must(&server, &["REPLICAOF", "NO", "ONE"]);
    load.recovers();
    load.stop().figures(Memory::FailedOver, [&server]).hold();
}

/// Without Sentinels the primary that is known stays the one to ask, also by new connections.
fn without_sentinels(name: &'static str, take_away: fn(&Server)) {
    let row = Row::begin(name);
    let group = Sentinels::start(Flavor::Redis);
    let store = RedisBuilder::sentinel(group.urls(), group.master_name());
    let plan = Plan::new(row, store, RedisBuilder::standalone(group.primary().url()));
    let mut load = plan.deadline(Duration::from_millis(500)).start();
    group.sentinels().iter().for_each(take_away);
    let from = load.now();
    load.decides(1_000);
    let told = load.told(from, load.now());
    assert!(
        told.iter().all(|(told, _)| !told.is_degraded),
        "the primary is still there"
    );
    let before = load.store().stats();
    must(group.primary(), &["CLIENT", "KILL", "TYPE", "normal"]);
    load.recovers();
    assert!(
        load.store().stats().connections > before.connections,
        "it was reached anew"
    );
    load.stop().figures(Memory::Kept, [group.primary()]).hold();
}

#[test]
fn all_sentinels_down() {
    without_sentinels("all Sentinels down", Server::kill);
}

#[test]
fn all_sentinels_frozen() {
    without_sentinels("all Sentinels frozen", Server::freeze);
}

#[test]
fn all_connections_killed() {
    let row = Row::begin("all connections killed");
    let server = Server::start(Flavor::Redis);
    let mut load = load_on(row, &server);
    for _ in 0..8 {
        must(&server, &["CLIENT", "KILL", "TYPE", "normal"]);
        load.recovers();
        load.decides(60);
    }
    load.stop().figures(Memory::Kept, [&server]).hold();
}
