//! What a peek tells about the counter of each algorithm.

use serde_json::{Value, json};
use testkit::servers::{Flavor, Server};
use testkit::wait;

use crate::harness::{PATIENCE, Tollgate};

const ANN: &str = r#"{"attributes": {"user": "ann"}}"#;

const LIMITS: &str = r"
version: 1
tiers:
  free: { capacity: 10, refill_rate: 1/h }
  pro: { capacity: 100, refill_rate: 10/h }
limits:
  - { name: fixed, key: [user], algorithm: fixed_window, limit: 10, window: 1h }
  - { name: sliding, key: [user], algorithm: sliding_window, limit: 10, window: 30d }
  - { name: log, key: [user], algorithm: sliding_log, limit: 10, window: 1h }
  - { name: tokens, key: [user], algorithm: token_bucket, tier: { by: tier, default: free } }
  - { name: leaky, key: [user], algorithm: leaky_bucket, capacity: 10, leak_rate: 1/h }
  - { name: work, key: [user], algorithm: concurrency, limit: 10, permit_timeout: 1h }
";

/// The limits of a peek after a check that cost 3, with times replaced by `true`.
fn peeked(service: &Tollgate, tier: &str) -> Vec<Value> {
    let body = json!({"attributes": {"user": "ann", "tier": tier}, "cost": 3}).to_string();
    assert_eq!(service.check(&body).status, 200);

    let peek = service.post("/v1/peek", &body);
    assert_eq!(peek.status, 200);
    let mut answer: Value = serde_json::from_slice(&peek.body).expect("the answer is JSON");
    let limits = answer["limits"].as_array_mut().expect("limits is a list");
    for limit in limits.iter_mut() {
        let limit = limit.as_object_mut().expect("a limit is an object");
        for common in ["limit", "remaining", "reset_after_ms", "retry_after_ms"] {
            assert!(limit.remove(common).is_some(), "{common}: {limit:?}");
        }
        for time in ["start_ms", "oldest_ms"] {
            if let Some(time) = limit
                .get_mut("window")
                .and_then(|window| window.get_mut(time))
            {
                *time = json!(time.as_u64() > Some(1_500_000_000_000));
            }
        }
        if let Some(level) = limit.get_mut("level") {
            *level = json!(level.as_f64().map(f64::round));
        }
    }
    limits.clone()
}

fn is_as_expected(service: &Tollgate) {
    let hour = 3_600_000_u64;
    assert_eq!(
        json!(peeked(service, "pro")),
        json!([
            {"name": "fixed", "algorithm": "fixed_window", "used": 3,
             "window": {"start_ms": true, "length_ms": hour}},
            {"name": "sliding", "algorithm": "sliding_window", "used": 3,
             "window": {"start_ms": true, "length_ms": 720 * hour}, "current": 3, "previous": 0},
            {"name": "log", "algorithm": "sliding_log", "used": 3,
             "window": {"start_ms": true, "length_ms": hour, "oldest_ms": true}},
            {"name": "tokens", "algorithm": "token_bucket", "used": 3, "level": 97.0,
             "rate": "10/h", "tier": "pro"},
            {"name": "leaky", "algorithm": "leaky_bucket", "used": 3, "level": 3.0, "rate": "1/h"},
            {"name": "work", "algorithm": "concurrency", "used": 3, "in_flight": 3},
        ])
    );
}

#[test]
fn in_memory() {
    is_as_expected(&Tollgate::with_config(LIMITS));
}

#[test]
fn on_redis() {
    let server = Server::start(Flavor::Redis);
    let config = format!("{LIMITS}{}", store(&server));
    let service = Tollgate::with_config(&config);
    wait_for_store(&service);
    is_as_expected(&service);
}

/// Units on lease are not used yet.
#[test]
fn units_on_lease() {
    let server = Server::start(Flavor::Redis);
    let limit = "{ name: api, key: [user], algorithm: token_bucket, capacity: 1000, refill_rate: 1/h, consistency: leased }";
    let service = Tollgate::with_config(&format!(
        "version: 1\nlimits:\n  - {limit}\n{}",
        store(&server)
    ));
    wait_for_store(&service);

    let mut checks = 0;
    wait::until_true(PATIENCE, "units on lease", || {
        checks += u64::from(service.check(ANN).status == 200);
        let peek: Value = serde_json::from_slice(&service.post("/v1/peek", ANN).body).unwrap();
        let api = &peek["limits"][0];
        assert_eq!(api["used"], checks, "{api}");
        api["held"].as_u64() > Some(0) && api["leased"].as_u64() >= api["held"].as_u64()
    });
}

fn store(server: &Server) -> String {
    let url = server.url();
    format!("store: {{ type: redis, endpoints: ['{url}'], timeout: 2s }}\n")
}

fn wait_for_store(service: &Tollgate) {
    wait::until_true(PATIENCE, "the service to reach the store", || {
        let peek: Value = serde_json::from_slice(&service.post("/v1/peek", ANN).body)
            .expect("the answer is JSON");
        peek["degraded"] == false
    });
}
