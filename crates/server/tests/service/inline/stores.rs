//! Limits that requests bring along, on a shared store.

use serde_json::json;
use testkit::servers::{Flavor, Server};
use testkit::wait;

use super::{body, remaining};
use crate::harness::{PATIENCE, Tollgate};

fn replicas(server: &Server) -> [Tollgate; 2] {
    let config = format!(
        "store: {{type: redis, endpoints: ['{}'], timeout: 250ms}}\n\
         defaults: {{expected_replicas: 2}}\n\
         limits: [{{name: api, key: [user], algorithm: sliding_log, limit: 10, window: 1h}}]",
        server.url()
    );
    let services = [(); 2].map(|()| Tollgate::with_config(&config));
    let peek = limit("ready", r#""on_store_failure": "deny""#);
    wait::until_true(PATIENCE, "every instance to reach the store", || {
        let mut services = services.iter();
        services.all(|service| service.post("/v1/peek", &peek).status == 200)
    });
    services
}

/// A check of a limit of ten per hour with these settings.
fn limit(name: &str, settings: &str) -> String {
    format!(
        r#"{{"limits": [{{"name": "{name}", "key": "ann", "algorithm": "sliding_log", "limit": 10, "window": "1h", {settings}}}]}}"#
    )
}

#[test]
fn replicas_share_the_counters_of_every_consistency() {
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let server = Server::start(flavor);
        let services = replicas(&server);
        for consistency in ["strict", "leased", "eventual"] {
            let check = limit(consistency, &format!(r#""consistency": "{consistency}""#));
            let allowed = (0..30)
                .filter(|round| services[round % 2].check(&check).status == 200)
                .count();
            assert_eq!(allowed, 10, "{consistency} on {flavor:?}");
        }
        let check = limit("local", r#""consistency": "local""#);
        let allowed = (0..30)
            .filter(|round| services[round % 2].check(&check).status == 200)
            .count();
        assert_eq!(allowed, 20, "each replica counts by itself");
        assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn a_permit_is_released_by_another_replica() {
    let server = Server::start(Flavor::Redis);
    let [one, other] = replicas(&server);
    let check = json!({"limits": [
        {"name": "api", "key": "ann"},
        {"name": "jobs", "key": "ann", "algorithm": "concurrency", "limit": 1, "permit_timeout": "1h"},
    ]});
    let held = one.check(&check.to_string());
    assert_eq!(held.status, 200);
    assert_eq!(other.check(&check.to_string()).status, 429);

    let permit = json!({"permit": body(&held)["permit"]}).to_string();
    let released = other.post("/v1/release", &permit);
    assert_eq!(
        (released.status, body(&released)),
        (200, json!({"released": true}))
    );
    assert_eq!(one.check(&check.to_string()).status, 200);
    // Nothing of it can be read.
    assert!(
        !permit.contains("jobs") && !permit.contains("ann"),
        "{permit}"
    );
}

#[test]
fn failure_policies_apply() {
    let server = Server::start(Flavor::Redis);
    let [service, _other] = replicas(&server);
    let [allow, deny, local] = ["allow", "deny", "local"]
        .map(|policy| limit(policy, &format!(r#""on_store_failure": "{policy}""#)));
    for check in [&allow, &deny, &local] {
        assert_eq!(remaining(&service.check(check)), 9);
    }
    server.kill();

    wait::until_true(PATIENCE, "the outage to be noticed", || {
        body(&service.check(&allow))["degraded"] == json!(true)
    });
    assert_eq!(service.check(&allow).status, 200);
    let denied = service.check(&deny);
    assert_eq!(denied.status, 503);
    assert_eq!(body(&denied)["limits"][0]["fallback"], "deny");
    let allowed = (0..20)
        .filter(|_| service.check(&local).status == 200)
        .count();
    assert!(
        (1..=5).contains(&allowed),
        "half of the limit at most: {allowed}"
    );
}
