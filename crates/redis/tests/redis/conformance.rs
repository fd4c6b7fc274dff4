//! The conformance suite of all stores, on real servers and in real time.

use crate::common;

use std::sync::Arc;

use testkit::conformance::{ByHand, InRealTime, run_all};
use testkit::servers::{Cluster, Flavor, Server};
use tollgate::ManualClock;
use tollgate_redis::RedisBuilder;

fn on_one_server(flavor: Flavor) {
    let (runtime, server) = (common::runtime(), Server::start(flavor));
    run_all(&InRealTime(Arc::new(common::standalone(&runtime, &server))));
    assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
}

fn on_a_cluster(flavor: Flavor) {
    let (runtime, cluster) = (common::runtime(), Cluster::start(flavor, 3, 0));
    run_all(&InRealTime(Arc::new(common::on_cluster(
        &runtime, &cluster,
    ))));
    for node in cluster.nodes() {
        assert_eq!(node.immortal_keys(), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn redis() {
    on_one_server(Flavor::Redis);
}

#[test]
fn valkey() {
    on_one_server(Flavor::Valkey);
}

#[test]
fn a_cluster_of_redis() {
    on_a_cluster(Flavor::Redis);
}

#[test]
fn a_cluster_of_valkey() {
    on_a_cluster(Flavor::Valkey);
}

/// With a manual clock, times can be compared exactly.
#[test]
fn with_a_manual_clock() {
    let (runtime, server, clock) = (
        common::runtime(),
        Server::start(Flavor::Redis),
        ManualClock::default(),
    );
    let builder = RedisBuilder::standalone(server.url())
        .timeout(common::PATIENT)
        .manual_time(clock.clone());
    let store = Arc::new(common::connected(&runtime, builder));
    run_all(&ByHand { clock, store });
}
