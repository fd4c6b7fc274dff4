//! The alert `evictions`: counters that a full Redis forgets.

use serde_json::json;
use testkit::servers::{Flavor, Server};
use testkit::wait;

use super::{Delivery, NARROW, Receiver, metric, service};
use crate::harness::{PATIENCE, Tollgate};

/// The requests of a batch.
const BATCH: usize = 250;

/// Spends the only unit of this many new keys.
fn fill(service: &Tollgate, first: usize, keys: usize) {
    let user = |index: usize| format!("{index:0>100}");
    for batch in (first..first + keys).collect::<Vec<_>>().chunks(BATCH) {
        let check = |index: &usize| json!({"op": "check", "attributes": {"user": user(*index)}});
        let body = json!({"requests": batch.iter().map(check).collect::<Vec<_>>()});
        let answers = service.post("/v1/batch", &body.to_string());
        assert_eq!(answers.status, 200, "{}", answers.text());
    }
}

/// The bytes that the server uses.
fn used_memory(server: &Server) -> u64 {
    let info = server.command(&["INFO", "memory"]);
    let info = info.as_str().expect("a text").to_owned();
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    used.and_then(|used| used.trim().parse().ok())
        .expect("bytes")
}

#[test]
fn counters_that_redis_evicts_fire_an_alert() {
    let server = Server::builder(Flavor::Redis)
        .config("maxmemory-policy", "allkeys-lru")
        .start();
    let receiver = Receiver::start(&[]);
    let rest = format!(
        "store: {{ type: redis, endpoints: ['{}'], timeout: 5s }}\n{NARROW}",
        server.url()
    );
    let service = service(receiver.address, "evictions: 1", &rest);
    fill(&service, 0, BATCH);
    let evicted = "tollgate_store_evicted_keys_total";
    assert_eq!(metric(&service, evicted), Some(0));

    // From now on every new counter takes the place of another one.
    let maxmemory = used_memory(&server).to_string();
    server.command(&["CONFIG", "SET", "maxmemory", &maxmemory]);
    fill(&service, BATCH, 8 * BATCH);
    // The service asks its server when it has connected again.
    drop(server.client().call(&["CLIENT", "KILL", "SKIPME", "yes"]));

    let sent = receiver.wait_for(1).remove(0);
    let body = Delivery::json(&sent);
    assert_eq!(
        (&body["alert"], &body["status"], &body["threshold"]),
        (&"evictions".into(), &"firing".into(), &1.0.into())
    );
    assert_eq!(
        body.get("limit"),
        None,
        "Redis does not say whose keys they were"
    );
    assert!(body["value"].as_f64() >= Some(1.0), "{body}");
    assert!(metric(&service, evicted) >= Some(1));
    service.wait_for_log("alert firing: counters of limited clients were evicted");

    // A client at its limit has it again.
    let passes_again = |index: usize| {
        let user = format!("{index:0>100}");
        let body = json!({"attributes": {"user": user}}).to_string();
        service.check(&body).status == 200
    };
    wait::until_true(PATIENCE, "a client with a new limit", || {
        (0..BATCH).any(passes_again)
    });
}
