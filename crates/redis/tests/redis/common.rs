//! What the tests of the store share: a runtime that runs beside the test, and stores on servers of
//! the test's own.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::servers::{Cluster, Flavor, Server};
use tokio::runtime::{Builder, Runtime};
use tollgate_redis::{RedisBuilder, RedisStore};

/// Longer than any deadline that a busy machine could miss: for tests of what is answered, not of
/// when.
pub(crate) const PATIENT: Duration = Duration::from_secs(5);

/// A runtime of its own threads: the test asks from outside, as most of the test kit does.
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

/// The store, once it can be asked.
pub(crate) fn connected(runtime: &Runtime, builder: RedisBuilder) -> RedisStore {
    let _inside = runtime.enter();
    let store = builder.build().expect("the settings are valid");
    assert!(
        runtime.block_on(store.ready(Duration::from_secs(10))),
        "the store is available"
    );
    store
}

/// Both kinds of server.
pub(crate) const FLAVORS: [Flavor; 2] = [Flavor::Redis, Flavor::Valkey];

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let patience = tokio::time::timeout(Duration::from_secs(10), async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(patience.await.is_ok(), "after 10 s still not: {what}");
}

/// Writes down every event and every field of every crate.
pub(crate) struct Listener {
    heard: Arc<Mutex<String>>,
}

impl Listener {
    pub(crate) fn new(heard: Arc<Mutex<String>>) -> Self {
        Self { heard }
    }
}

impl tracing::Subscriber for Listener {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
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
        let mut heard = self.heard.lock().expect("no listener panics");
        event.record(&mut Write(&mut heard));
        heard.push('\n');
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
