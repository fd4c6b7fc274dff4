//! Leased and eventual limits through the service: what answers say, and what becomes of what a
//! service holds.

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

/// Asks until an answer has this source.
fn ask_until(service: &Tollgate, source: &str) -> u16 {
    let wanted = format!(r#""source":"{source}""#);
    wait::until(PATIENCE, source, || {
        let answer = service.check(ANN);
        answer.text().contains(&wanted).then_some(answer.status)
    })
}

#[test]
fn answers_say_that_they_came_from_a_lease_or_from_a_denial() {
    let server = Server::start(Flavor::Redis);
    for consistency in ["leased", "eventual"] {
        let service = on(
            &server,
            consistency,
            "algorithm: fixed_window, limit: 400, window: 1h",
        );
        assert_eq!(ask_until(&service, "lease"), 200);
        assert_eq!(ask_until(&service, "deny_cache"), 429);
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
fn a_service_that_is_asked_to_end_loses_nothing() {
    let server = Server::start(Flavor::Redis);
    for consistency in ["leased", "eventual"] {
        let limit = "algorithm: fixed_window, limit: 10000, window: 1h";
        let [mut leaving, staying] = [0, 1].map(|_| on(&server, consistency, limit));
        let passed = (0..200)
            .filter(|_| leaving.check(ANN).status == 200)
            .count();
        assert_eq!(passed, 200);
        leaving.signal("TERM");
        assert!(leaving.wait_for_exit().success());
        assert_eq!(remaining(&staying), 9_800, "{consistency}");
        server.command(&["FLUSHALL"]);
    }
}

#[test]
fn a_service_that_is_killed_loses_at_most_what_it_held_and_not_for_long() {
    let server = Server::start(Flavor::Redis);
    let limit = "algorithm: token_bucket, capacity: 1000, refill_rate: 100000/s";
    let [killed, staying] = [0, 1].map(|_| on(&server, "leased", limit));
    assert_eq!(ask_until(&killed, "lease"), 200);
    killed.signal("KILL");
    assert!(remaining(&staying) >= 500);
    wait::until_true(PATIENCE, "its lease to end", || {
        remaining(&staying) == 1_000
    });
}
