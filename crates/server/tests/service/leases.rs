//! Leased and eventual limits through the service: the source of decisions, and what happens to
//! leased units when a service ends.

use testkit::servers::{Flavor, Server};
use testkit::wait;

use crate::harness::{PATIENCE, Tollgate};

const ANN: &str = r#"{"attributes": {"user": "ann"}}"#;
const LOOK: &str = r#"{"attributes": {"user": "ann"}, "cost": 0}"#;

fn on(server: &Server, consistency: &str, limit: &str) -> Tollgate {
    let url = server.url();
    let service = Tollgate::with_config(&format!(
        "store: {{type: redis, endpoints: ['{url}'], timeout: 250ms}}\n\
         defaults: {{on_store_failure: deny, expected_replicas: 2, consistency: {consistency}}}\n\
         limits: [{{name: api, key: [user], {limit}}}]"
    ));
    wait::until_true(PATIENCE, "the store", || {
        service.post("/v1/peek", LOOK).status == 200
    });
    service
}

fn remaining(service: &Tollgate) -> u64 {
    let text = service.post("/v1/peek", LOOK).text();
    let (_, rest) = text
        .split_once(r#""remaining":"#)
        .expect("what remains is told");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Sends checks until a decision has this source.
fn check_until(service: &Tollgate, source: &str) -> u16 {
    let wanted = format!(r#""source":"{source}""#);
    wait::until(PATIENCE, source, || {
        let answer = service.check(ANN);
        answer.text().contains(&wanted).then_some(answer.status)
    })
}

#[test]
fn decisions_name_a_lease_or_the_deny_cache_as_their_source() {
    let server = Server::start(Flavor::Redis);
    for consistency in ["leased", "eventual"] {
        let service = on(
            &server,
            consistency,
            "algorithm: fixed_window, limit: 400, window: 1h",
        );
        assert_eq!(check_until(&service, "lease"), 200);
        assert_eq!(check_until(&service, "deny_cache"), 429);
        let metrics = testkit::reverse_proxy::get(service.admin, "/metrics", &[]).text();
        for outcome in [
            r#"outcome="allowed",source="lease""#,
            r#"outcome="denied",source="deny_cache""#,
        ] {
            assert!(metrics.contains(outcome), "{outcome}: {metrics}");
        }
        server.command(&["FLUSHALL"]);
    }
}

#[test]
fn a_shutdown_returns_all_leased_units() {
    let server = Server::start(Flavor::Redis);
    for consistency in ["leased", "eventual"] {
        let limit = "algorithm: fixed_window, limit: 10000, window: 1h";
        let [mut first, second] = [0, 1].map(|_| on(&server, consistency, limit));
        let passed = (0..200).filter(|_| first.check(ANN).status == 200).count();
        assert_eq!(passed, 200);
        first.signal("TERM");
        assert!(first.wait_for_exit().success());
        assert_eq!(remaining(&second), 9_800, "{consistency}");
        server.command(&["FLUSHALL"]);
    }
}

#[test]
fn a_killed_service_loses_only_its_leased_units_for_a_short_time() {
    let server = Server::start(Flavor::Redis);
    let limit = "algorithm: token_bucket, capacity: 1000, refill_rate: 100000/s";
    let [killed, second] = [0, 1].map(|_| on(&server, "leased", limit));
    assert_eq!(check_until(&killed, "lease"), 200);
    killed.signal("KILL");
    assert!(remaining(&second) >= 500);
    wait::until_true(PATIENCE, "its lease to end", || remaining(&second) == 1_000);
}
