//! Faults of a cluster: a fault of one primary affects its slots and no others.

use std::collections::BTreeSet;
use std::time::Duration;

use testkit::servers::{Cluster, Flavor, Server};
use testkit::wait;
use tokio::time::Instant;
use tollgate::Limiter;
use tollgate_redis::RedisBuilder;

use super::availability::wait_for_replica;
use super::fault_row::FaultRow;
use super::figures::{DataLoss, GRACE, p99};
use super::load::{Load, LoadPlan};
use super::record::{CheckRecord, Record};
use super::refusals::must;
use super::subjects::{KEYS, LEDGER, LIMITS, Subject, key, limits};

/// Longer than any delay by the machine: other slots must not degrade because of such a delay.
const DEADLINE: Duration = Duration::from_millis(500);
/// Longest time for the nodes to agree on a change.
const CHANGE_LIMIT: Duration = Duration::from_secs(20);

fn load_on(row: FaultRow, cluster: &Cluster) -> Load {
    let builder = || RedisBuilder::cluster(cluster.urls());
    LoadPlan::new(row, builder(), builder())
        .deadline(DEADLINE)
        .start()
}

fn slot_of(cluster: &Cluster, key_number: usize) -> u16 {
    cluster.slot_of(&format!("{{={}}}", key(key_number)))
}

/// The primary of the first key, and all keys of that primary.
fn victim(cluster: &Cluster) -> (&Server, BTreeSet<usize>) {
    let primary = |key_number| cluster.primary_of_slot(slot_of(cluster, key_number));
    let victim = primary(0);
    let keys: BTreeSet<usize> = (0..KEYS)
        .filter(|number| primary(*number).addr() == victim.addr())
        .collect();
    assert!(keys.len() < KEYS, "other primaries have keys too");
    (victim, keys)
}

/// Waits until all running nodes report that the cluster is healthy.
fn wait_until_ok(cluster: &Cluster) {
    let running = || {
        cluster
            .nodes()
            .iter()
            .filter(|node| node.is_running() && !node.is_frozen())
    };

    wait::until_true(CHANGE_LIMIT, "the cluster to be healthy", || {
        running().all(|node| {
            let info = must(node, &["CLUSTER", "INFO"]);
            info.as_str()
                .is_some_and(|text| text.contains("cluster_state:ok"))
        })
    });
}

/// Waits until a slot has another primary.
fn wait_for_successor(cluster: &Cluster, slot: u16, old: &Server) {
    wait::until_true(CHANGE_LIMIT, "another primary", || {
        cluster.primary_of_slot(slot).addr() != old.addr()
    });
    wait_until_ok(cluster);
}

fn running(cluster: &Cluster) -> impl Iterator<Item = &Server> {
    cluster.nodes().iter().filter(|node| node.is_running())
}

/// Asserts that failure policies decided for these keys only. If the machine was delayed for about
/// as long as the deadline, that cannot be asserted: then every server seems to be unavailable.
fn only_these_degraded(record: &Record, keys: &BTreeSet<usize>) {
    let degraded = record.checks.iter().filter(|check| check.is_degraded);
    let others = degraded
        .filter(|check| !keys.contains(&record.subjects[check.subject].key_number))
        .count();
    println!("  other slots     {others} fallback decisions");
    assert!(
        others == 0 || record.noise.worst() > DEADLINE / 2,
        "other slots are not affected"
    );
}

#[test]
#[ignore = "long: cargo xtask faults"]
fn primary_killed() {
    let row = FaultRow::begin("cluster primary killed");
    let cluster = Cluster::start(Flavor::Redis, 3, 1);
    let (primary, keys) = victim(&cluster);

    wait_for_replica(cluster.replicas_of(primary)[0], primary);
    let mut load = load_on(row, &cluster);
    load.begin_failover(keys.clone());
    primary.kill();
    load.wait_until_degraded();
    wait_for_successor(&cluster, slot_of(&cluster, 0), primary);
    load.wait_until_recovered_for(|subject| keys.contains(&subject.key_number));

    let record = load.stop();
    record
        .figures(DataLoss::FailedOver, running(&cluster))
        .print_and_assert();
    only_these_degraded(&record, &keys);
}

#[test]
#[ignore = "long: cargo xtask faults"]
fn primary_frozen() {
    let row = FaultRow::begin("one primary frozen");
    let cluster = Cluster::start(Flavor::Redis, 3, 0);
    let (primary, keys) = victim(&cluster);
    let mut load = load_on(row, &cluster);
    let others_p99 = |check: Vec<(CheckRecord, Subject)>| {
        p99(check
            .iter()
            .filter(|(_, subject)| !keys.contains(&subject.key_number))
            .map(|(check, _)| check))
    };
    let before = others_p99(load.checks_between(Duration::ZERO, load.now()));

    primary.freeze();
    load.wait_until_degraded();
    let from = load.now();
    load.wait_for_decisions(2_000);
    let during = others_p99(load.checks_between(from, load.now()));
    primary.thaw();
    wait_until_ok(&cluster);
    load.wait_until_recovered_for(|subject| keys.contains(&subject.key_number));

    let record = load.stop();
    record
        .figures(DataLoss::None, running(&cluster))
        .print_and_assert();
    println!(
        "  other slots     p99 {before:.1?} before, {during:.1?} while one primary was frozen"
    );
    only_these_degraded(&record, &keys);
}

/// While a slot is being migrated, no server can decide a request with several counters of which
/// some do not exist; failure policies decide. Other requests are not affected.
#[test]
#[ignore = "long: cargo xtask faults"]
fn resharding() {
    let row = FaultRow::begin("resharding under load");
    let cluster = Cluster::start(Flavor::Redis, 3, 0);
    let mut load = load_on(row, &cluster);
    let moved = BTreeSet::from([0, 5, 9]);

    for key_number in moved.iter().copied().cycle().take(6) {
        let slot = slot_of(&cluster, key_number);
        let from = cluster.primary_of_slot(slot).addr();
        let to = cluster
            .nodes()
            .iter()
            .find(|node| node.addr() != from)
            .expect("there are three");
        cluster.begin_move_slot(slot, to);
        load.wait_for_decisions(300);
        cluster.finish_move_slot(slot, to);
        load.wait_until_recovered_for(|subject| subject.key_number == key_number);
        load.wait_for_decisions(300);
    }

    let record = load.stop();
    record
        .figures(DataLoss::None, running(&cluster))
        .print_and_assert();
    only_these_degraded(&record, &moved);
}

/// The replica takes over when it has all data: nothing is lost.
#[test]
#[ignore = "long: cargo xtask faults"]
fn cluster_failover() {
    let row = FaultRow::begin("CLUSTER FAILOVER");
    let cluster = Cluster::start(Flavor::Valkey, 3, 1);
    let (primary, keys) = victim(&cluster);
    let mut load = load_on(row, &cluster);
    let replica = cluster.replicas_of(primary)[0];

    must(replica, &["CLUSTER", "FAILOVER"]);
    wait_for_successor(&cluster, slot_of(&cluster, 0), primary);
    load.wait_until_recovered_for(|subject| keys.contains(&subject.key_number));

    let record = load.stop();
    record
        .figures(DataLoss::None, running(&cluster))
        .print_and_assert();
    only_these_degraded(&record, &keys);
}

/// A cluster that requires full coverage rejects all commands while a primary is missing.
#[test]
#[ignore = "long: cargo xtask faults"]
fn cluster_down() {
    let row = FaultRow::begin("CLUSTERDOWN");
    let cluster = Cluster::builder(Flavor::Redis)
        .config("cluster-require-full-coverage", "yes")
        .start();
    let (primary, keys) = victim(&cluster);
    let mut load = load_on(row, &cluster);

    primary.freeze();
    load.wait_until_degraded();
    let is_other = |subject: &Subject| !keys.contains(&subject.key_number);
    load.wait_for_check(
        "a fallback decision for another primary's slots",
        |check, subject| check.is_degraded && is_other(subject),
    );
    load.wait_for_decisions(500);
    primary.thaw();
    wait_until_ok(&cluster);
    load.wait_until_recovered();
    load.wait_until_recovered_for(|subject| keys.contains(&subject.key_number));

    load.stop()
        .figures(DataLoss::None, running(&cluster))
        .print_and_assert();
}

/// A request to two primaries has one `decision_timeout` for both calls. The first primary is frozen until
/// little time is left. The second stays frozen. The request only peeks, so that the charges are
/// those of the load.
#[test]
fn across_a_stutter_and_a_freeze() {
    let row = FaultRow::begin("request to a primary that stutters and one that is frozen");
    let cluster = Cluster::start(Flavor::Redis, 3, 0);
    let primary = |key_number: usize| cluster.primary_of_slot(slot_of(&cluster, key_number));
    let frozen = primary(0);
    let other = (1..KEYS)
        .find(|number| primary(*number).addr() != frozen.addr())
        .expect("there are three primaries");
    let (stuttering, deadline) = (primary(other), Duration::from_millis(200));
    let builder = || RedisBuilder::cluster(cluster.urls());
    let load = LoadPlan::new(row, builder(), builder())
        .deadline(deadline)
        .start();
    let limiter = Limiter::new(load.store().clone(), limits()).expect("the limits are valid");

    frozen.freeze();
    load.run_for(deadline / 2);
    stuttering.freeze();
    let from = load.now();
    let check = load.runtime().spawn(async move {
        let started = Instant::now();
        // The lower of the two limits comes first.
        let decision = limiter
            .peek(LIMITS[0], key(other))
            .and(LEDGER, key(0))
            .await;
        (
            decision.expect("both limits exist").is_degraded(),
            started.elapsed(),
        )
    });
    load.run_for(deadline * 9 / 10);
    stuttering.thaw();
    let (is_degraded, took) = load.runtime().block_on(check).expect("the check completes");
    let noise = load.noise(from, took);
    frozen.thaw();
    wait_until_ok(&cluster);

    load.stop()
        .figures(DataLoss::None, running(&cluster))
        .print_and_assert();

    println!(
        "  across          {took:.1?} with noise of {noise:.1?}, of a deadline of {deadline:?}"
    );
    assert!(is_degraded, "one of the two was frozen");
    assert!(
        // The default `decision_timeout` is twice the timeout here.
        took <= 2 * deadline + GRACE + noise,
        "both calls share one decision timeout"
    );
}
