//! Faults of a cluster: what is wrong with one primary is wrong with its slots, and with no others.

use std::collections::BTreeSet;
use std::time::Duration;

use testkit::servers::{Cluster, Flavor, Server};
use testkit::wait;
use tokio::time::Instant;
use tollgate::Limiter;
use tollgate_redis::RedisBuilder;

use super::availability::wait_for_replica;
use super::figures::{GRACE, Memory, p99};
use super::load::{Load, Plan};
use super::record::{Record, Told};
use super::refusals::must;
use super::row::Row;
use super::subjects::{KEYS, LEDGER, LIMITS, Subject, key, limits};

/// Longer than this machine ever holds a server up: where others must not degrade, nothing but the
/// fault may make them.
const DEADLINE: Duration = Duration::from_millis(500);
/// How long the nodes may take to agree on a change.
const CHANGE_LIMIT: Duration = Duration::from_secs(20);

fn load_on(row: Row, cluster: &Cluster) -> Load {
    let builder = || RedisBuilder::cluster(cluster.urls());
    Plan::new(row, builder(), builder())
        .deadline(DEADLINE)
        .start()
}

fn slot_of(cluster: &Cluster, key_number: usize) -> u16 {
    cluster.slot_of(&format!("{{={}}}", key(key_number)))
}

/// The primary of the first key, and the keys it has.
fn victim(cluster: &Cluster) -> (&Server, BTreeSet<usize>) {
    let primary = |key_number| cluster.primary_of_slot(slot_of(cluster, key_number));
    let victim = primary(0);
    let keys: BTreeSet<usize> = (0..KEYS)
        .filter(|number| primary(*number).addr() == victim.addr())
        .collect();
    assert!(keys.len() < KEYS, "other primaries have keys too");
    (victim, keys)
}

/// Waits until every node that runs says that all is well.
fn wait_until_ok(cluster: &Cluster) {
    let running = || {
        cluster
            .nodes()
            .iter()
            .filter(|node| node.is_running() && !node.is_frozen())
    };
    wait::until_true(CHANGE_LIMIT, "the cluster to be well", || {
        running().all(|node| {
            let info = must(node, &["CLUSTER", "INFO"]);
            info.as_str()
                .is_some_and(|text| text.contains("cluster_state:ok"))
        })
    });
}

/// Waits until a slot has another primary than this one.
fn wait_for_successor(cluster: &Cluster, slot: u16, old: &Server) {
    wait::until_true(CHANGE_LIMIT, "another primary", || {
        cluster.primary_of_slot(slot).addr() != old.addr()
    });
    wait_until_ok(cluster);
}

fn running(cluster: &Cluster) -> impl Iterator<Item = &Server> {
    cluster.nodes().iter().filter(|node| node.is_running())
}

/// Nobody but these keys was answered by policy. A machine that stood still for about as long as
/// the deadline proves nothing: then every server looks silent.
fn only_these_degraded(record: &Record, keys: &BTreeSet<usize>) {
    let degraded = record.told.iter().filter(|told| told.is_degraded);
    let others = degraded
        .filter(|told| !keys.contains(&record.subjects[told.subject].key_number))
        .count();
    println!("  other slots     {others} answers by policy");
    assert!(
        others == 0 || record.noise.worst() > DEADLINE / 2,
        "other slots are not concerned"
    );
}

#[test]
#[ignore = "long: cargo xtask faults"]
fn primary_killed() {
    let row = Row::begin("cluster primary killed");
    let cluster = Cluster::start(Flavor::Redis, 3, 1);
    let (primary, keys) = victim(&cluster);
    wait_for_replica(cluster.replicas_of(primary)[0], primary);
    let mut load = load_on(row, &cluster);
    load.fails_over(keys.clone());
    primary.kill();
    load.degrades();
    wait_for_successor(&cluster, slot_of(&cluster, 0), primary);
    load.recovers_for(|subject| keys.contains(&subject.key_number));
    let record = load.stop();
    record.figures(Memory::FailedOver, running(&cluster)).hold();
    only_these_degraded(&record, &keys);
}

#[test]
#[ignore = "long: cargo xtask faults"]
fn primary_frozen() {
    let row = Row::begin("one primary frozen");
    let cluster = Cluster::start(Flavor::Redis, 3, 0);
    let (primary, keys) = victim(&cluster);
    let mut load = load_on(row, &cluster);
    let others_p99 = |told: Vec<(Told, Subject)>| {
        p99(told
            .iter()
            .filter(|(_, subject)| !keys.contains(&subject.key_number))
            .map(|(told, _)| told))
    };
    let before = others_p99(load.told(Duration::ZERO, load.now()));
    primary.freeze();
    load.degrades();
    let from = load.now();
    load.decides(2_000);
    let during = others_p99(load.told(from, load.now()));
    primary.thaw();
    wait_until_ok(&cluster);
    load.recovers_for(|subject| keys.contains(&subject.key_number));
    let record = load.stop();
    record.figures(Memory::Kept, running(&cluster)).hold();
    println!(
        "  other slots     p99 {before:.1?} before, {during:.1?} while one primary was frozen"
    );
    only_these_degraded(&record, &keys);
}

/// While a slot is open, requests about several counters of which some are missing are for neither
/// server to decide; the policies answer. Nothing else is noticed.
#[test]
#[ignore = "long: cargo xtask faults"]
fn resharding() {
    let row = Row::begin("resharding under load");
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
        load.decides(300);
        cluster.finish_move_slot(slot, to);
        load.recovers_for(|subject| subject.key_number == key_number);
        load.decides(300);
    }
    let record = load.stop();
    record.figures(Memory::Kept, running(&cluster)).hold();
    only_these_degraded(&record, &moved);
}

/// The replica takes over when it has everything: nothing is forgotten.
#[test]
#[ignore = "long: cargo xtask faults"]
fn cluster_failover() {
    let row = Row::begin("CLUSTER FAILOVER");
    let cluster = Cluster::start(Flavor::Valkey, 3, 1);
    let (primary, keys) = victim(&cluster);
    let mut load = load_on(row, &cluster);
    let replica = cluster.replicas_of(primary)[0];
    must(replica, &["CLUSTER", "FAILOVER"]);
    wait_for_successor(&cluster, slot_of(&cluster, 0), primary);
    load.recovers_for(|subject| keys.contains(&subject.key_number));
    let record = load.stop();
    record.figures(Memory::Kept, running(&cluster)).hold();
    only_these_degraded(&record, &keys);
}

/// A cluster that must be whole refuses everything while one of its primaries is missing.
#[test]
#[ignore = "long: cargo xtask faults"]
fn cluster_down() {
    let row = Row::begin("CLUSTERDOWN");
    let cluster = Cluster::builder(Flavor::Redis)
        .config("cluster-require-full-coverage", "yes")
        .start();
    let (primary, keys) = victim(&cluster);
    let mut load = load_on(row, &cluster);
    primary.freeze();
    load.degrades();
    let is_other = |subject: &Subject| !keys.contains(&subject.key_number);
    load.shows("another primary's slots by policy", |told, subject| {
        told.is_degraded && is_other(subject)
    });
    load.decides(500);
    primary.thaw();
    wait_until_ok(&cluster);
    load.recovers();
    load.recovers_for(|subject| keys.contains(&subject.key_number));
    load.stop().figures(Memory::Kept, running(&cluster)).hold();
}

/// A request across two primaries has one deadline for both: the first stutters until there is
/// hardly any time left, the second is frozen and has enough on its way that nothing more is sent
/// to it.
#[test]
fn across_a_stutter_and_a_freeze() {
    let row = Row::begin("across a primary that stutters and one that is frozen");
    let cluster = Cluster::start(Flavor::Redis, 3, 0);
    let primary = |key_number: usize| cluster.primary_of_slot(slot_of(&cluster, key_number));
    let frozen = primary(0);
    let other = (1..KEYS)
        .find(|number| primary(*number).addr() != frozen.addr())
        .expect("there are three primaries");
    let (stuttering, deadline) = (primary(other), Duration::from_millis(200));
    let builder = || RedisBuilder::cluster(cluster.urls());
    let load = Plan::new(row, builder(), builder())
        .deadline(deadline)
        .start();
    let limiter = Limiter::new(load.store().clone(), limits());
    frozen.freeze();
    load.lasts(deadline / 2);
    stuttering.freeze();
    let from = load.now();
    let asking = load.runtime().spawn(async move {
        let asked = Instant::now();
        // The narrower of the two limits is asked first.
        let decision = limiter
            .check(LIMITS[0], key(other))
            .and(LEDGER, key(0))
            .await;
        (
            decision.expect("both are limits").is_degraded(),
            asked.elapsed(),
        )
    });
    load.lasts(deadline * 9 / 10);
    stuttering.thaw();
    let (is_degraded, took) = load.runtime().block_on(asking).expect("it is answered");
    let noise = load.noise(from, took);
    frozen.thaw();
    wait_until_ok(&cluster);
    load.stop().figures(Memory::Kept, running(&cluster)).hold();
    println!(
        "  across          {took:.1?} with noise of {noise:.1?}, of a deadline of {deadline:?}"
    );
    assert!(is_degraded, "one of the two was frozen");
    assert!(
        took <= deadline + GRACE + noise,
        "one deadline holds for both"
    );
}
