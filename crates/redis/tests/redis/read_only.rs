//! A server that accepts no writes, such as a replica: it is unavailable as long as that lasts, in
//! one outage.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::servers::{Client, Flavor, Server};
use tokio::runtime::Builder;
use tollgate::{Limit, Limiter};
use tollgate_redis::RedisBuilder;
use tracing::Level;

use crate::common::{self, LogRecorder};

/// The attempts to connect that a test waits for. Each of them could begin or end an outage.
const ATTEMPTS: u64 = 12;

/// How many connections the server has accepted so far.
fn connections(client: &mut Client) -> u64 {
    let reply = client.call(&["INFO", "stats"]).expect("a reply");
    let text = reply.as_str().expect("INFO replies with text");
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("total_connections_received:"));
    count
        .and_then(|count| count.parse().ok())
        .expect("a number")
}

/// Makes the server refuse writes, and accept them again.
async fn refuse_writes_for_a_while(server: &Server, refuse: &[&str], accept: &[&str]) {
    let builder = RedisBuilder::standalone(server.url()).timeout(common::PATIENT);
    let store = builder.build().expect("the settings are valid");
    assert!(store.ready(common::PATIENT).await, "the store is available");
    let api = Limit::fixed_window("api", 1_000_000, Duration::from_mins(1));
    let limiter = Limiter::new(store.clone(), [api]).expect("the limits are valid");
    let is_degraded = async || {
        let decision = limiter.check("api", "ann").await;
        decision.expect("failure policies decide").is_degraded()
    };
    assert!(!is_degraded().await);

    assert!(server.command(refuse).error().is_none());
    common::eventually("writes to be refused", &is_degraded).await;

    let established = store.stats().connections;
    let mut client = server.client();
    let enough = connections(&mut client) + ATTEMPTS;
    let client = Mutex::new(client);
    common::eventually("attempts to connect", async || {
        assert!(is_degraded().await, "no write was accepted");
        assert!(limiter.health().degraded);
        let peek = limiter.peek("api", "ann").await;
        assert!(peek.expect("failure policies decide").is_degraded());
        connections(&mut client.lock().expect("not poisoned")) >= enough
    })
    .await;
    let stats = store.stats();
    assert_eq!(
        (stats.up, stats.connections),
        (0, established),
        "no attempt counts as a connection"
    );

    assert!(server.command(accept).error().is_none());
    common::eventually("the end of the outage", async || {
        !is_degraded().await && !limiter.health().degraded
    })
    .await;
}

/// The lines that an outage logs, at the level that users see.
fn lines_of(server: &Server, refuse: &[&str], accept: &[&str]) -> Vec<String> {
    let log = Arc::new(Mutex::new(String::new()));
    let recorder = LogRecorder::new(log.clone(), Level::INFO);
    // One thread, whose subscriber it is.
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    tracing::subscriber::with_default(recorder, || {
        runtime.block_on(refuse_writes_for_a_while(server, refuse, accept));
    });

    let log = log.lock().expect("the lock is not poisoned");
    log.lines().map(str::to_owned).collect()
}

#[test]
fn an_outage_of_a_replica_logs_two_lines_with_the_whole_cause() {
    for flavor in common::FLAVORS {
        let (server, primary) = (Server::start(flavor), Server::start(flavor));
        let port = primary.addr().port().to_string();
        let lines = lines_of(
            &server,
            &["REPLICAOF", "127.0.0.1", &port],
            &["REPLICAOF", "NO", "ONE"],
        );

        let [begin, end] = &lines[..] else {
            panic!("two lines expected: {lines:#?}")
        };
        let cause = format!(
            "{}: server error: READONLY You can't write against a read only replica.",
            server.addr()
        );
        assert!(begin.contains(&cause), "{begin}");
        assert!(end.contains("store available again"), "{end}");
    }
}

#[test]
fn so_does_a_server_that_misses_its_replicas() {
    let server = Server::start(Flavor::Redis);
    let lines = lines_of(
        &server,
        &["CONFIG", "SET", "min-replicas-to-write", "1"],
        &["CONFIG", "SET", "min-replicas-to-write", "0"],
    );
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("NOREPLICAS"), "{lines:#?}");
}
