//! Replicas of two versions would count apart and admit each limit twice, so one version has a store
//! at a time.

use std::time::{Duration, SystemTime};

use testkit::fault_proxy::{Fault, FaultProxy};
use testkit::servers::{Flavor, Server};
use tollgate::{Limit, Limiter};
use tollgate_redis::records::{Record, RecordBounds, RecordRevision};
use tollgate_redis::{LAYOUT, RedisBuilder, RedisConnectError, RedisStore};

use crate::common::{self, FLAVORS, PATIENT};

const LAYOUTS: RecordBounds = RecordBounds {
    group: "layout",
    records_max: 16,
    text_max: 64,
};
const MINUTE: Duration = Duration::from_mins(1);
/// Short, so that a record is renewed and expires soon.
const BRIEF: Duration = Duration::from_millis(600);

async fn put(store: &RedisStore, text: &str, ttl: Duration) {
    let put = store.put_record(&LAYOUTS, "in use", text, ttl).await;
    put.expect("the store is available");
}

async fn records(store: &RedisStore) -> Vec<Record> {
    let any = RecordRevision::default();
    let list = store.read_records(&LAYOUTS, any).await;
    list.expect("available")
        .map_or_else(Vec::new, |list| list.records)
}

fn limiter(store: &RedisStore) -> Limiter {
    let limit = Limit::fixed_window("api", 1_000, MINUTE);
    Limiter::new(store.clone(), [limit]).expect("the limits are valid")
}

async fn is_degraded(limiter: &Limiter) -> bool {
    let decision = limiter.check("api", "ann").await;
    decision.expect("a decision").is_degraded()
}

fn builder(url: &str) -> RedisBuilder {
    RedisBuilder::standalone(url).timeout(PATIENT)
}

#[test]
fn a_store_that_another_layout_uses_is_refused() {
    for flavor in FLAVORS {
        let (runtime, server) = (common::runtime(), Server::start(flavor));
        let stores = [(); 2].map(|()| common::standalone(&runtime, &server));
        runtime.block_on(async {
            for store in &stores {
                store.announce_layout().await.expect("the same version");
            }
            let records = records(&stores[0]).await;
            assert!(records[0].text.starts_with(LAYOUT), "{records:?}");

            let late = builder(&server.url()).layout("3", MINUTE);
            let error = late.clone().connect().await.expect_err("another version");
            assert!(
                matches!(error, RedisConnectError::OtherLayout { .. }),
                "{error}"
            );
            let expected = "layout 2, this one has 3";
            assert!(error.to_string().contains(expected), "{error}");

            let late = late.build().expect("the settings are valid");
            common::eventually("the other version to be found", async || {
                !late.warnings().is_empty()
            })
            .await;
            assert!(is_degraded(&limiter(&late)).await, "the store is not used");
            assert!(late.warnings()[0].contains(expected));
            assert!(!late.is_ready());
        });
    }
}

/// A store that lost its data does not know which version used it.
#[test]
fn after_a_loss_of_data_the_version_that_came_later_gives_way() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let builder = builder(&server.url()).layout(LAYOUT, BRIEF);
    let store = common::connected(&runtime, builder);
    let limiter = limiter(&store);

    runtime.block_on(async {
        server.command(&["FLUSHALL"]);
        let since = SystemTime::UNIX_EPOCH.elapsed().expect("a time") + MINUTE;
        put(&store, &format!("3 {}", since.as_millis()), MINUTE).await;
        common::eventually("the record to be put again", async || {
            let records = records(&store).await;
            records.iter().all(|record| record.text.starts_with(LAYOUT))
        })
        .await;
        assert!(!is_degraded(&limiter).await, "this version was first");

        put(&store, "3 1", MINUTE).await;
        common::eventually("this version to give way", async || {
            is_degraded(&limiter).await
        })
        .await;
        assert!(store.warnings()[0].contains("layout 3"));
    });
}

/// Both versions announce themselves while the store has no data.
#[test]
fn of_two_versions_in_one_store_one_decides() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Valkey));
    let open = |layout| {
        let _guard = runtime.enter();
        let builder = builder(&server.url()).layout(layout, BRIEF);
        builder.build().expect("the settings are valid")
    };
    let stores = ["3", "4"].map(open);
    runtime.block_on(async {
        common::eventually("one of them to decide", async || {
            stores.iter().filter(|store| store.is_ready()).count() == 1
                && stores
                    .iter()
                    .filter(|store| !store.warnings().is_empty())
                    .count()
                    == 1
        })
        .await;

        server.command(&["FLUSHALL"]);
        for _ in 0..100 {
            let first = is_degraded(&limiter(&stores[0])).await;
            let second = is_degraded(&limiter(&stores[1])).await;
            assert!(first || second, "both versions count");
        }
    });
}

/// The store is unavailable when the instance starts: it must not count before it has looked.
#[test]
fn no_decision_uses_a_store_before_the_version_is_known() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let first = common::standalone(&runtime, &server);
    let proxy = FaultProxy::start(server.addr());
    proxy.set(Fault::Refuse);

    runtime.block_on(async {
        first.announce_layout().await.expect("the first version");
        let builder = builder(&format!("redis://{}", proxy.addr()));
        let late = builder.layout("3", MINUTE).build().expect("valid settings");
        let limiter = limiter(&late);
        assert!(is_degraded(&limiter).await);
        proxy.clear();
        while late.warnings().is_empty() {
            assert!(is_degraded(&limiter).await, "the store is not used");
        }
        assert!(is_degraded(&limiter).await, "the store is not used");
    });
}

#[test]
fn a_store_is_used_again_when_the_other_version_is_gone() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let first = common::standalone(&runtime, &server);
    runtime.block_on(async {
        server.command(&["FLUSHALL"]);
        put(&first, "3 1", Duration::from_secs(1)).await;
        let builder = builder(&server.url()).layout(LAYOUT, BRIEF);
        let store = builder.build().expect("the settings are valid");
        let limiter = limiter(&store);
        common::eventually("the other version to be found", async || {
            !store.warnings().is_empty()
        })
        .await;
        assert!(is_degraded(&limiter).await);

        common::eventually("the store to be used", async || {
            !is_degraded(&limiter).await
        })
        .await;
        assert_eq!(store.warnings(), Vec::<String>::new());
        assert!(store.is_ready());
    });
}
