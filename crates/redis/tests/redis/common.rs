//! Helpers of all tests: a runtime in the background, and stores on servers of the test.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::servers::{Cluster, Flavor, Server};
use tokio::runtime::{Builder, Runtime};
use tollgate_redis::{RedisBuilder, RedisStore};

/// A timeout that even a busy machine does not exceed, for tests that do not measure time.
pub(crate) const PATIENT: Duration = Duration::from_secs(5);

/// A runtime with its own threads. The test itself runs outside of it.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts")
}

/// A store on one server, connected.
pub(crate) fn standalone(runtime: &Runtime, server: &Server) -> RedisStore {
    connected(
        runtime,
        RedisBuilder::standalone(server.url()).timeout(PATIENT),
    )
}

/// A store on a cluster, connected to all of it.
pub(crate) fn on_cluster(runtime: &Runtime, cluster: &Cluster) -> RedisStore {
    connected(
        runtime,
        RedisBuilder::cluster(cluster.urls()).timeout(PATIENT),
    )
}

/// The store, once it is connected.
pub(crate) fn connected(runtime: &Runtime, builder: RedisBuilder) -> RedisStore {
    let _guard = runtime.enter();
    let store = builder.build().expect("the settings are valid");
    assert!(
        runtime.block_on(store.ready(Duration::from_secs(10))),
        "the store is available"
    );
    store
}

/// Both server flavors.
pub(crate) const FLAVORS: [Flavor; 2] = [Flavor::Redis, Flavor::Valkey];

/// The names of the counters on a server.
pub(crate) fn counters(server: &Server) -> Vec<String> {
    let names = server.keys().into_iter();
    let names = names.map(|name| String::from_utf8(name).expect("these keys are text"));
    names.filter(|name| !name.contains("{records}")).collect()
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let patience = tokio::time::timeout(Duration::from_secs(10), async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(patience.await.is_ok(), "timed out after 10 s: {what}");
}

/// Records the log events of all crates with all of their fields, up to a level.
pub(crate) struct LogRecorder {
    log: Arc<Mutex<String>>,
    level_max: tracing::Level,
}

impl LogRecorder {
    pub(crate) fn new(log: Arc<Mutex<String>>, level_max: tracing::Level) -> Self {
        Self { log, level_max }
    }
}

impl tracing::Subscriber for LogRecorder {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= self.level_max
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Write<'a>(&'a mut String);
        impl tracing::field::Visit for Write<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                write!(self.0, "{field}={value:?} ").expect("writing to a string cannot fail");
            }
        }
        let mut log = self.log.lock().expect("the lock is not poisoned");
        event.record(&mut Write(&mut log));
        log.push('\n');
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
