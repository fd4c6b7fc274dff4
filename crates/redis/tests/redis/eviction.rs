//! Servers that evict keys when their memory is full, and so forget counters.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::servers::{Client, Cluster, Flavor, Server};
use tokio::runtime::Builder;
use tollgate::{Limit, Limiter};
use tollgate_redis::{RedisBuilder, RedisStore};
use tracing::Level;

use crate::common::{self, FLAVORS, LogRecorder, PATIENT};

/// Often, so that no test waits for it.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A store that checks its servers often. Must be called inside a runtime.
async fn connect(builder: RedisBuilder) -> RedisStore {
    let builder = builder.timeout(PATIENT).check_interval(CHECK_INTERVAL);
    let store = builder.build().expect("the settings are valid");
    assert!(store.ready(PATIENT).await, "the store is available");
    store
}

/// A number in the reply to `INFO`.
fn info(client: &mut Client, section: &str, field: &str) -> u64 {
    let reply = client.call(&["INFO", section]).expect("a reply");
    let text = reply.as_str().expect("INFO replies with text");
    let value = text.lines().find_map(|line| line.strip_prefix(field));
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect();
    let value: String = value.map(digits).unwrap_or_default();
    value.parse().unwrap_or(0)
}

/// Stores 100 MB with an expiry, far more than the server may keep.
fn fill(server: &Server) {
    let mut client = server.client();
    let value = "x".repeat(100_000);
    for key in 0..1_000 {
        let stored = client.call(&["SET", &format!("other:{key}"), &value, "PX", "3600000"]);
        assert!(stored.expect("a reply").is_ok());
    }
    assert!(info(&mut client, "stats", "evicted_keys:") > 0);
}

/// Waits until the only warning of the store contains this text.
async fn wait_for_warning(store: &RedisStore, text: &str) {
    common::eventually(
        &format!("a warning with {text:?}"),
        async || matches!(&*store.warnings(), [warning] if warning.contains(text)),
    )
    .await;
}

/// Connects to a server that evicts, fills it, and corrects its settings.
async fn evict_and_correct(server: &Server, policy: &str) {
    let store = connect(RedisBuilder::standalone(server.url())).await;
    let settings = format!("(maxmemory 8388608, maxmemory-policy {policy})");
    let address = server.addr();
    wait_for_warning(
        &store,
        &format!("{address} evicts keys when its memory is full {settings}"),
    )
    .await;
    assert_eq!(store.stats().evicted_keys, 0);

    fill(server);
    wait_for_warning(
        &store,
        &format!("{address} has evicted keys to free memory {settings}"),
    )
    .await;
    assert!(store.stats().evicted_keys > 0);

    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    common::eventually("no warning", async || store.warnings().is_empty()).await;
    assert!(store.stats().evicted_keys > 0, "what was lost stays known");
}

#[test]
fn a_server_that_evicts_is_noticed_at_connect_and_while_running() {
    for flavor in FLAVORS {
        for policy in ["allkeys-lru", "volatile-ttl"] {
            let server = Server::builder(flavor)
                .config("maxmemory", "8mb")
                .config("maxmemory-policy", policy)
                .start();
            let log = Arc::new(Mutex::new(String::new()));
            let recorder = LogRecorder::new(log.clone(), Level::WARN);
            // One thread, whose subscriber it is.
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime starts");
            tracing::subscriber::with_default(recorder, || {
                runtime.block_on(evict_and_correct(&server, policy));
            });

            let log = log.lock().expect("the lock is not poisoned");
            let lines: Vec<&str> = log.lines().collect();
            assert_eq!(lines.len(), 2, "each is logged once: {lines:#?}");
            assert!(lines[0].contains("evicts keys when") && lines[1].contains("has evicted"));
        }
    }
}

/// A counter that a server forgets is a full limit: this is what the warning is about.
#[test]
fn an_evicted_counter_admits_again() {
    let server = Server::builder(Flavor::Redis)
        .config("maxmemory", "8mb")
        .config("maxmemory-policy", "allkeys-lru")
        .start();
    common::runtime().block_on(async {
        let store = connect(RedisBuilder::standalone(server.url())).await;
        let login = Limit::fixed_window("login", 1, Duration::from_hours(1));
        let limiter = Limiter::new(store, [login]).expect("the limits are valid");
        let is_allowed = async || {
            let decision = limiter.check("login", "ann").await;
            decision.expect("the store is available").is_allowed()
        };
        assert!(is_allowed().await);
        assert!(!is_allowed().await);

        let mut client = server.client();
        let value = "x".repeat(100_000);
        for key in 0..1_000 {
            drop(client.call(&["SET", &format!("other:{key}"), &value]));
        }
        assert!(is_allowed().await, "the counter was not evicted");
    });
}

#[test]
fn a_server_that_keeps_its_keys_gives_no_warning() {
    for (name, value) in [
        // Without `maxmemory` nothing is evicted, whatever the policy.
        ("maxmemory-policy", "allkeys-lru"),
        // With the default policy writes fail instead.
        ("maxmemory", "8mb"),
    ] {
        let server = Server::builder(Flavor::Redis).config(name, value).start();
        common::runtime().block_on(async {
            let store = connect(RedisBuilder::standalone(server.url())).await;
            let client = Mutex::new((server.client(), 0));
            common::eventually("three checks", async || {
                let (client, own) = &mut *client.lock().expect("not poisoned");
                let calls = info(client, "commandstats", "cmdstat_info:calls=");
                *own += 1;
                // The reply does not count the call that it belongs to.
                calls + 1 >= *own + 3
            })
            .await;
            assert_eq!(store.warnings(), Vec::<String>::new());
        });
    }
}

#[test]
fn a_server_that_refuses_to_say_gives_a_warning() {
    let server = Server::builder(Flavor::Redis)
        .user("limiter", "a-password-of-a-test", "~* +@all -info")
        .start();
    common::runtime().block_on(async {
        let store = connect(RedisBuilder::standalone(server.url())).await;
        wait_for_warning(&store, "NOPERM").await;
        let [warning] = &*store.warnings() else {
            panic!("one warning")
        };
        assert!(warning.contains("+info"), "{warning}");
        assert!(!warning.contains("password"), "{warning}");
    });
}

#[test]
fn every_server_of_a_cluster_is_checked() {
    let cluster = Cluster::start(Flavor::Redis, 3, 0);
    common::runtime().block_on(async {
        let store = connect(RedisBuilder::cluster(cluster.urls())).await;
        let mut evicting = Vec::new();
        for server in &cluster.nodes()[1..] {
            server.command(&["CONFIG", "SET", "maxmemory", "100mb"]);
            server.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
            evicting.push(format!("{} evicts keys", server.addr()));
        }

        common::eventually("warnings about both servers", async || {
            let warnings = store.warnings();
            let names = |server: &String| warnings.iter().any(|text| text.contains(server));
            warnings.len() == 2 && evicting.iter().all(names)
        })
        .await;
    });
}
