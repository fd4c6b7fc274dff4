//! Shared records on real servers. What holds for every kind of records is tested in
//! `crates/gate/tests`; this is about servers.

use std::time::Duration;

use testkit::servers::{Cluster, Flavor, Sentinels, Server};
use testkit::wait;
use tollgate::{Limit, Limiter, Rate};
use tollgate_redis::records::{RecordBounds, RecordError, RecordList, RecordRevision};
use tollgate_redis::{RedisBuilder, RedisStore};

use crate::common::{self, FLAVORS, PATIENT};

const GROUP: RecordBounds = RecordBounds {
    group: "test",
    records_max: 2_000,
    text_max: 128 << 10,
};
const MINUTE: Duration = Duration::from_mins(1);

async fn put(store: &RedisStore, id: &str, text: &str) {
    let put = store.put_record(&GROUP, id, text, MINUTE).await;
    put.expect("the store is available");
}

/// The records, whatever is known.
async fn read(store: &RedisStore) -> RecordList {
    let list = store.read_records(&GROUP, RecordRevision::default()).await;
    list.expect("the store is available").expect("a list")
}

async fn ids(store: &RedisStore) -> Vec<String> {
    let records = read(store).await.records.into_iter();
    records.map(|record| record.id).collect()
}

/// Two stores on the same servers see what the other one puts.
async fn share(first: &RedisStore, second: &RedisStore) {
    assert_eq!(read(second).await.revision, RecordRevision::NO_RECORDS);
    put(first, "a", "1").await;
    put(second, "b", "2").await;
    assert_eq!(ids(first).await, ["a", "b"]);

    let known = read(first).await.revision;
    let unchanged = first.read_records(&GROUP, known).await;
    assert_eq!(unchanged.expect("the store is available"), None);

    put(second, "a", "3").await;
    let changed = first.read_records(&GROUP, known).await;
    let changed = changed.expect("the store is available").expect("a list");
    assert_eq!(changed.records[0].text, "3");
    assert_ne!(changed.revision, known);
}

#[test]
fn two_stores_on_one_server_share_records() {
    for flavor in FLAVORS {
        let (runtime, server) = (common::runtime(), Server::start(flavor));
        let stores = [(); 2].map(|()| common::standalone(&runtime, &server));
        runtime.block_on(share(&stores[0], &stores[1]));
        assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn two_stores_on_a_cluster_share_records() {
    for flavor in FLAVORS {
        let (runtime, cluster) = (common::runtime(), Cluster::start(flavor, 3, 0));
        let stores = [(); 2].map(|()| common::on_cluster(&runtime, &cluster));
        runtime.block_on(share(&stores[0], &stores[1]));

        // The slot moves to another server while both stores know where it was.
        let slot = cluster.slot_of("{records}");
        let owner = cluster.primary_of_slot(slot);
        let others = cluster.nodes().iter();
        let other = others.into_iter().find(|node| node.addr() != owner.addr());
        cluster.move_slot(slot, other.expect("three servers"));
        runtime.block_on(async {
            put(&stores[0], "c", "4").await;
            assert_eq!(ids(&stores[1]).await, ["a", "b", "c"]);
        });
        for node in cluster.nodes() {
            assert_eq!(node.immortal_keys(), Vec::<Vec<u8>>::new());
        }
    }
}

/// More records than one page has, some of them longer than a page.
#[test]
fn a_large_group_is_read_in_pages() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let store = common::standalone(&runtime, &server);
    runtime.block_on(async {
        for index in 0..GROUP.records_max {
            let length = if index % 500 == 0 {
                GROUP.text_max
            } else {
                200
            };
            put(&store, &format!("{index:04}"), &"x".repeat(length)).await;
        }

        let before = store.stats().script_calls;
        let list = read(&store).await;
        let calls = store.stats().script_calls - before;
        let expected = (0..GROUP.records_max).map(|index| format!("{index:04}"));
        assert!(
            list.records
                .iter()
                .map(|record| &record.id)
                .eq(&expected.collect::<Vec<_>>())
        );
        assert!((5..100).contains(&calls), "{calls} pages");

        // An unchanged group is one call, however large it is.
        let before = store.stats().script_calls;
        assert_eq!(
            store
                .read_records(&GROUP, list.revision)
                .await
                .expect("available"),
            None
        );
        assert_eq!(store.stats().script_calls - before, 1);

        let full = store.put_record(&GROUP, "one more", "", MINUTE).await;
        assert!(matches!(full, Err(RecordError::Full { .. })), "{full:?}");
        let unchanged = store.read_records(&GROUP, list.revision).await;
        assert_eq!(unchanged.expect("the store is available"), None);
        put(&store, "0001", "replaced").await;
    });
}

/// A store that lost its records, or has older ones, never looks unchanged.
#[test]
fn lost_records_are_noticed() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Valkey));
    let store = common::standalone(&runtime, &server);
    runtime.block_on(async {
        put(&store, "a", "1").await;
        let known = read(&store).await.revision;

        server.command(&["FLUSHALL"]);
        let list = store.read_records(&GROUP, known).await.expect("available");
        assert_eq!(list.expect("a change").records, []);

        // As many changes as before: a counter would be the same.
        put(&store, "a", "2").await;
        let list = store.read_records(&GROUP, known).await.expect("available");
        assert_eq!(list.expect("a change").records[0].text, "2");
    });
}

/// One of the two keys of a group is gone, as after an eviction.
#[test]
fn a_group_recovers_from_an_evicted_key() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let store = common::standalone(&runtime, &server);
    let bounds = RecordBounds {
        records_max: 1,
        ..GROUP
    };
    runtime.block_on(async {
        for key in ["tollgate:{records}test", "tollgate:{records}test.expiry"] {
            put(&store, "a", "1").await;
            assert_eq!(server.command(&["DEL", key]).as_int(), Some(1));
            assert!(store.put_record(&bounds, "b", "2", MINUTE).await.is_ok());
            assert!(store.remove_record(&bounds, "b").await.expect("available"));
            store.remove_record(&bounds, "a").await.expect("available");
        }
        assert_eq!(ids(&store).await, Vec::<String>::new());
    });
}

/// Another program has written to the keys of a group.
#[test]
fn a_group_recovers_from_what_another_program_has_written() {
    const HASH: &str = "tollgate:{records}test";
    const EXPIRIES: &str = "tollgate:{records}test.expiry";
    for flavor in FLAVORS {
        let (runtime, server) = (common::runtime(), Server::start(flavor));
        let store = common::standalone(&runtime, &server);
        runtime.block_on(async {
            put(&store, "a", "1").await;
            for words in [
                &["HSET", HASH, "b", "short"][..],
                &["HSET", HASH, "", "no revision"],
            ] {
                server.command(words);
                assert_eq!(ids(&store).await, ["a"], "{words:?}");
            }
            for (key, kind) in [(HASH, "SET"), (EXPIRIES, "SET"), (HASH, "RPUSH")] {
                server.command(&["DEL", key]);
                server.command(&[kind, key, "x"]);
                let list = read(&store).await;
                assert_eq!(list.revision, RecordRevision::NO_RECORDS);
                assert_eq!(list.records, []);
                put(&store, "a", "2").await;
                assert_eq!(ids(&store).await, ["a"], "{kind} {key}");
            }
            server.command(&["SET", HASH, "x"]);
            assert!(!store.remove_record(&GROUP, "a").await.expect("available"));
        });
        assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn records_survive_the_loss_of_the_script_cache() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let store = common::standalone(&runtime, &server);
    runtime.block_on(async {
        put(&store, "a", "1").await;
        server.command(&["SCRIPT", "FLUSH"]);
        put(&store, "b", "2").await;
        assert_eq!(ids(&store).await, ["a", "b"]);
    });
}

/// After a fail-over the store works on the new primary, whose data may be older.
#[test]
fn records_follow_a_fail_over() {
    let (runtime, group) = (common::runtime(), Sentinels::start(Flavor::Redis));
    let builder = RedisBuilder::sentinel(group.urls(), group.master_name());
    let store = common::connected(&runtime, builder.timeout(PATIENT));
    runtime.block_on(async {
        put(&store, "a", "1").await;
        let known = read(&store).await.revision;

        group.primary().kill();
        wait::until_true(Duration::from_secs(30), "a new primary", || {
            group.current_primary().is_some_and(Server::is_running)
        });
        common::eventually("the new primary to be used", async || {
            store.put_record(&GROUP, "b", "2", MINUTE).await.is_ok()
        })
        .await;
        let list = store.read_records(&GROUP, known).await.expect("available");
        assert!(list.is_some(), "the change is noticed");
    });
}

/// The ACL of the documentation suffices for everything that a store does.
#[test]
fn the_documented_acl_suffices() {
    let docs = include_str!("../../../../docs/redis.md");
    let line = docs.lines().find(|line| line.starts_with("ACL SETUSER"));
    let words: Vec<&str> = line.expect("an ACL").split(' ').collect();

    for flavor in FLAVORS {
        let (runtime, server) = (common::runtime(), Server::start(flavor));
        assert!(server.command(&words).error().is_none());
        let url = format!("redis://limiter:password@{}", server.addr());
        let builder = RedisBuilder::standalone(url).timeout(PATIENT);
        let store = common::connected(&runtime, builder);
        let limits = [
            Limit::token_bucket("tokens", 100, Rate::per_second(1)),
            Limit::concurrency("jobs", 1, MINUTE),
            Limit::sliding_log("log", 10, MINUTE),
        ];
        let limiter = Limiter::new(store.clone(), limits).expect("the limits are valid");

        runtime.block_on(async {
            put(&store, "a", "1").await;
            assert_eq!(ids(&store).await, ["a"]);
            assert!(store.remove_record(&GROUP, "a").await.expect("available"));

            for limit in ["jobs", "log"] {
                let decision = limiter.check(limit, "ann").await.expect("a decision");
                assert!(!decision.is_degraded(), "{limit}");
            }
            let reservation = limiter.reserve("tokens", "ann").cost(10).await;
            let reservation = reservation.expect("the store is available");
            assert!(!reservation.decision().is_degraded());
            reservation.settle(5).await.expect("available");
        });
    }
}
