//! What holds for the records of every store: memory, Redis, Valkey and clusters. Time is a clock
//! of the test.

use std::sync::Arc;
use std::time::Duration;

use testkit::servers::{Cluster, Flavor, Server};
use tokio::runtime::{Builder, Runtime};
use tollgate::{ManualClock, Micros};
use tollgate_gate::records::{
    ID_MAX, RecordError, RecordGroup, RecordRevision, SharedRecords, TTL_MAX,
};
use tollgate_redis::RedisBuilder;

const MINUTE: Duration = Duration::from_mins(1);
const FLEET: RecordGroup = RecordGroup::Fleet;

/// Records, and the clock by which they expire.
struct Scene {
    records: SharedRecords,
    clock: ManualClock,
}

impl Scene {
    async fn put(&self, id: &str, text: &str, ttl: Duration) {
        let put = self.records.put(FLEET, id, text, ttl).await;
        put.expect("a valid record");
    }

    async fn remove(&self, id: &str) -> bool {
        let removed = self.records.remove(FLEET, id).await;
        removed.expect("the store is available")
    }

    /// The revision, and the records as `id=text`.
    async fn read(&self) -> (RecordRevision, Vec<String>) {
        let list = self.records.read(FLEET, RecordRevision::default()).await;
        let list = list.expect("available").expect("nothing is known");
        let records = list.records.into_iter();
        let texts = records.map(|record| format!("{}={}", record.id, record.text));
        (list.revision, texts.collect())
    }

    async fn is_unchanged(&self, known: RecordRevision) -> bool {
        let list = self.records.read(FLEET, known).await;
        list.expect("the store is available").is_none()
    }
}

async fn run_all(scene: &Scene) {
    changes_show(scene).await;
    a_swap_replaces_what_it_expects(scene).await;
    expired_records_are_never_read(scene).await;
    groups_are_separate(scene).await;
    what_does_not_fit_changes_nothing(scene).await;
}

async fn changes_show(scene: &Scene) {
    let (empty, records) = scene.read().await;
    assert_eq!(records, Vec::<String>::new());
    assert!(scene.is_unchanged(empty).await, "a known empty group");
    assert!(!scene.remove("a").await, "there is none");
    assert!(scene.is_unchanged(empty).await, "nothing was removed");

    scene.put("a", "1", MINUTE).await;
    assert!(!scene.is_unchanged(empty).await);
    let (first, _) = scene.read().await;
    assert!(scene.is_unchanged(first).await);

    // The same text is a change, too: it expires later.
    scene.put("a", "1", MINUTE).await;
    assert!(!scene.is_unchanged(first).await);
    scene.put("ü b", "zwei\n\0drei", MINUTE).await;
    assert_eq!(scene.read().await.1, ["a=1", "ü b=zwei\n\0drei"]);

    scene.put("a", "", MINUTE).await;
    assert!(scene.remove("ü b").await);
    assert_eq!(scene.read().await.1, ["a="]);
    let (second, _) = scene.read().await;
    assert!(scene.remove("a").await);
    assert!(!scene.remove("a").await, "it is removed once");
    assert!(!scene.is_unchanged(second).await);
    assert_eq!(scene.read().await.1, Vec::<String>::new());
}

async fn a_swap_replaces_what_it_expects(scene: &Scene) {
    let swap = async |expected: &str, text: &str| {
        let swapped = scene.records.swap(FLEET, "a", expected, text, MINUTE).await;
        swapped.expect("a valid record")
    };
    assert!(!swap("1", "2").await, "there is none");
    assert!(swap("", "1").await);
    assert!(
        !swap("", "2").await && !swap("11", "2").await,
        "another one"
    );
    let (first, records) = scene.read().await;
    assert_eq!(records, ["a=1"]);
    assert!(swap("", "1").await, "the reply to the first call was lost");
    assert!(scene.is_unchanged(first).await);

    assert!(swap("1", "zwei\0drei").await);
    assert_eq!(scene.read().await.1, ["a=zwei\0drei"]);
    scene.clock.advance(MINUTE);
    assert!(!swap("zwei\0drei", "3").await, "it has expired");
    assert!(swap("", "3").await);
    assert!(scene.remove("a").await);
}

async fn expired_records_are_never_read(scene: &Scene) {
    scene.put("long", "1", MINUTE).await;
    scene.put("short", "2", Duration::from_secs(10)).await;
    let list = scene.records.read(FLEET, RecordRevision::default()).await;
    let list = list.expect("available").expect("nothing is known");
    let lengths: Vec<_> = list
        .records
        .iter()
        .map(|record| record.expires_after)
        .collect();
    assert_eq!(lengths, [MINUTE, Duration::from_secs(10)]);

    scene.clock.advance(Duration::from_secs(10));
    assert_eq!(scene.read().await.1, ["long=1"]);
    assert!(!scene.remove("short").await, "it has expired");

    // It can be put again, and the others remain.
    scene.put("short", "3", Duration::from_secs(10)).await;
    assert_eq!(scene.read().await.1, ["long=1", "short=3"]);
    scene.clock.advance(MINUTE);
    assert_eq!(scene.read().await.1, Vec::<String>::new());
    scene.put("next", "4", MINUTE).await;
    assert_eq!(scene.read().await.1, ["next=4"]);
    assert!(scene.remove("next").await);
}

async fn groups_are_separate(scene: &Scene) {
    scene.put("a", "1", MINUTE).await;
    let actions = scene
        .records
        .read(RecordGroup::Actions, RecordRevision::default())
        .await;
    assert_eq!(actions.expect("available").expect("a list").records, []);
    assert!(
        !scene
            .records
            .remove(RecordGroup::Top, "a")
            .await
            .expect("available")
    );
    assert!(scene.remove("a").await);
}

async fn what_does_not_fit_changes_nothing(scene: &Scene) {
    let bounds = FLEET.bounds();
    for index in 0..bounds.records_max {
        // The first one expires before the others.
        let ttl = if index == 0 { MINUTE / 2 } else { MINUTE };
        scene.put(&format!("{index:04}"), "text", ttl).await;
    }
    let (full, records) = scene.read().await;
    assert_eq!(records.len(), bounds.records_max);

    let too_long = "x".repeat(bounds.text_max + 1);
    let id_too_long = "x".repeat(ID_MAX + 1);
    let records = &scene.records;
    let refusals = [
        (
            records.put(FLEET, "more", "", MINUTE).await,
            "remove one first",
        ),
        (
            records.put(FLEET, "0001", &too_long, MINUTE).await,
            "has 16385 bytes",
        ),
        (
            records.put(FLEET, &id_too_long, "", MINUTE).await,
            "has 257 bytes",
        ),
        (records.put(FLEET, "", "", MINUTE).await, "has 0 bytes"),
        (
            records.put(FLEET, "0001", "", Duration::ZERO).await,
            "cannot be kept for 0ns",
        ),
        (
            records.put(FLEET, "0001", "", TTL_MAX + MINUTE).await,
            "at most",
        ),
    ];
    for (result, expected) in refusals {
        let error: RecordError = result.expect_err(expected);
        let text = error.to_string().replace("between 1 ms and", "at most");
        assert!(text.contains(expected), "{text}");
    }
    assert!(scene.is_unchanged(full).await);

    // Replacing needs no room, and an expired record makes room for one.
    scene.put("0001", "replaced", MINUTE).await;
    scene.clock.advance(MINUTE / 2);
    scene.put("more", "", MINUTE).await;
    let again = scene.records.put(FLEET, "0000", "", MINUTE).await;
    assert!(matches!(again, Err(RecordError::Full { .. })), "{again:?}");
    assert_eq!(scene.read().await.1.len(), bounds.records_max);
}

fn runtime() -> Runtime {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.expect("a runtime starts")
}

fn clock() -> ManualClock {
    // A time that has more digits than Lua writes by itself.
    ManualClock::new(Micros::new(1_794_766_681_905_203))
}

fn on_redis(builder: RedisBuilder) {
    let (runtime, clock) = (runtime(), clock());
    let builder = builder
        .timeout(Duration::from_secs(5))
        .manual_time(clock.clone());
    runtime.block_on(async {
        let store = builder.build().expect("the settings are valid");
        assert!(
            store.ready(Duration::from_secs(10)).await,
            "the store is available"
        );
        let records = SharedRecords::on_redis(store);
        run_all(&Scene { records, clock }).await;
    });
}

#[test]
fn memory() {
    let clock = clock();
    let records = SharedRecords::in_memory(Arc::new(clock.clone()));
    runtime().block_on(run_all(&Scene { records, clock }));
}

#[test]
fn redis() {
    let server = Server::start(Flavor::Redis);
    on_redis(RedisBuilder::standalone(server.url()));
    assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
}

#[test]
fn valkey() {
    let server = Server::start(Flavor::Valkey);
    on_redis(RedisBuilder::standalone(server.url()));
    assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_cluster() {
    let cluster = Cluster::start(Flavor::Valkey, 3, 0);
    on_redis(RedisBuilder::cluster(cluster.urls()));
}
