//! Failovers of a primary to its replica, and faults of Sentinels.

use std::time::Duration;

use testkit::servers::{Flavor, Sentinels, Server};
use testkit::wait;
use tollgate_redis::RedisBuilder;

use super::fault_row::FaultRow;
use super::figures::DataLoss;
use super::load::{Load, LoadPlan};
use super::process::load_on;
use super::refusals::must;
use super::subjects::KEYS;

/// Longest time for servers to agree on a change.
pub(super) const CHANGE_LIMIT: Duration = Duration::from_secs(20);

/// A load on the primary that the Sentinels report.
fn load_by_name(row: FaultRow, group: &Sentinels) -> Load {
    let builder = || RedisBuilder::sentinel(group.urls(), group.master_name());
    LoadPlan::new(row, builder(), builder()).start()
}

/// Waits until a server reports a role: `master` or `slave`.
pub(super) fn wait_for_role(server: &Server, role: &str) {
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

/// Waits until a replica has the data of its primary. It is not enough that the replication link is
/// up, because a primary may not replicate for up to a second after that. So the test writes a key
/// and waits until the replica has it.
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

    // In a cluster, this must be the primary of the first key.
    let marker = format!("{{=key-0}}from-{}-to-{}", primary.addr(), replica.addr());
    must(primary, &["SET", &marker, "1", "PX", "60000"]);
    wait::until_true(CHANGE_LIMIT, "a replica to follow its primary", || {
        replica.keys().iter().any(|key| key == marker.as_bytes())
    });
}

#[test]
#[ignore = "long: cargo xtask faults"]
fn sentinel_failover() {
    let row = FaultRow::begin("Sentinel failover");
    let group = Sentinels::start(Flavor::Redis);

    wait_for_replica(group.replica(), group.primary());
    let mut load = load_by_name(row, &group);
    load.begin_failover(0..KEYS);
    group.primary().kill();
    load.wait_until_degraded();
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
    load.wait_until_recovered();

    load.stop()
        .figures(DataLoss::FailedOver, [group.replica()])
        .print_and_assert();
}

/// The old primary is healthy and replies until it is demoted.
#[test]
#[ignore = "long: cargo xtask faults"]
fn sentinel_failover_on_demand() {
    let row = FaultRow::begin("manual demotion by Sentinel");
    let group = Sentinels::start(Flavor::Valkey);

    wait_for_replica(group.replica(), group.primary());
    let mut load = load_by_name(row, &group);
    load.begin_failover(0..KEYS);
    must(
        &group.sentinels()[0],
        &["SENTINEL", "FAILOVER", group.master_name()],
    );
    wait_for_role(group.replica(), "master");
    wait_for_role(group.primary(), "slave");
    load.wait_until_recovered();

    load.stop()
        .figures(DataLoss::FailedOver, [group.replica()])
        .print_and_assert();
}

/// A server that has become a replica keeps its connections and rejects writes.
#[test]
fn manual_demotion() {
    let row = FaultRow::begin("manual demotion (READONLY)");
    let (server, other) = (Server::start(Flavor::Redis), Server::start(Flavor::Redis));

    follow(&other, &server);
    wait_for_replica(&other, &server);
    let mut load = load_on(row, &server);
    load.begin_failover(0..KEYS);
    must(&other, &["REPLICAOF", "NO", "ONE"]);
    follow(&server, &other);
    load.wait_for_error("READONLY");
    load.wait_for_decisions(500);
    wait_for_replica(&server, &other);
    must(&server, &["REPLICAOF", "NO", "ONE"]);
    load.wait_until_recovered();

    load.stop()
        .figures(DataLoss::FailedOver, [&server])
        .print_and_assert();
}

/// Without Sentinels the store keeps using the known primary, also for new connections.
fn without_sentinels(name: &'static str, take_away: fn(&Server)) {
    let row = FaultRow::begin(name);
    let group = Sentinels::start(Flavor::Redis);
    let store = RedisBuilder::sentinel(group.urls(), group.master_name());
    let plan = LoadPlan::new(row, store, RedisBuilder::standalone(group.primary().url()));
    let mut load = plan.deadline(Duration::from_millis(500)).start();

    group.sentinels().iter().for_each(take_away);
    let from = load.now();
    load.wait_for_decisions(1_000);
    let checks = load.checks_between(from, load.now());
    assert!(
        checks.iter().all(|(check, _)| !check.is_degraded),
        "the primary is still available"
    );
    let before = load.store().stats();
    must(group.primary(), &["CLIENT", "KILL", "TYPE", "normal"]);
    load.wait_until_recovered();
    assert!(
        load.store().stats().connections > before.connections,
        "the store has reconnected"
    );

    load.stop()
        .figures(DataLoss::None, [group.primary()])
        .print_and_assert();
}

#[test]
fn all_sentinels_down() {
    without_sentinels("all Sentinels down", Server::kill);
}

#[test]
fn all_sentinels_frozen() {
    without_sentinels("all Sentinels frozen", Server::freeze);
}

/// One of the three Sentinels monitors other servers. The store follows the other two, and stays
/// where they led it when only the one is left.
#[test]
#[ignore = "long: cargo xtask faults"]
fn sentinel_with_another_primary() {
    let row = FaultRow::begin("a Sentinel with another primary");
    let (group, other) = (
        Sentinels::start(Flavor::Redis),
        Sentinels::start(Flavor::Redis),
    );
    let (others, stray) = (&group.sentinels()[..2], &other.sentinels()[2]);
    let urls = others.iter().chain([stray]).map(Server::url);
    let store = RedisBuilder::sentinel(urls, group.master_name());
    let observer = RedisBuilder::sentinel(group.urls(), group.master_name());

    wait_for_replica(group.replica(), group.primary());
    let mut load = LoadPlan::new(row, store, observer).start();
    load.begin_failover(0..KEYS);
    must(&others[0], &["SENTINEL", "FAILOVER", group.master_name()]);
    wait_for_role(group.primary(), "slave");
    load.wait_until_recovered();

    let before = load.store().stats();
    others.iter().for_each(Server::kill);
    load.wait_for_decisions(3_000);
    assert_eq!(load.store().stats().connections, before.connections);
    assert!(other.primary().keys().is_empty(), "it was not used");

    load.stop()
        .figures(DataLoss::FailedOver, [group.replica()])
        .print_and_assert();
}

#[test]
fn all_connections_killed() {
    let row = FaultRow::begin("all connections killed");
    let server = Server::start(Flavor::Redis);
    let mut load = load_on(row, &server);

    for _ in 0..8 {
        must(&server, &["CLIENT", "KILL", "TYPE", "normal"]);
        load.wait_until_recovered();
        load.wait_for_decisions(60);
    }

    load.stop()
        .figures(DataLoss::None, [&server])
        .print_and_assert();
}
