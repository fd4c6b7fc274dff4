//! The fleet: real replicas on a real store, as each of them sees it.

use serde_json::Value;
use testkit::reverse_proxy;
use testkit::servers::{Flavor, Server};
use testkit::wait;

use crate::harness::{PATIENCE, Tollgate};

const ANN: &str = r#"{"attributes": {"user": "ann"}}"#;

fn config(url: &str, limit: u32) -> String {
    format!(
        "store: {{type: redis, endpoints: ['{url}'], timeout: 250ms}}\n\
         defaults: {{on_store_failure: deny, expected_replicas: 3}}\n\
         limits: [{{name: api, key: [user], algorithm: sliding_log, limit: {limit}, window: 1h}}]"
    )
}

fn replica(name: &str, yaml: &str) -> Tollgate {
    Tollgate::with(yaml, &["--name", name], &[])
}

fn fleet(service: &Tollgate) -> Value {
    let answer = reverse_proxy::get(service.admin, "/admin/fleet", &[]);
    assert_eq!(answer.status, 200);
    serde_json::from_str(&answer.text()).expect("JSON")
}

/// The names of the replicas that a service sees, this one first.
fn names(fleet: &Value) -> Vec<&str> {
    let replicas = fleet["replicas"].as_array().expect("a list").iter();
    replicas
        .map(|replica| replica["name"].as_str().expect("a name"))
        .collect()
}

fn kinds(fleet: &Value) -> Vec<&str> {
    let findings = fleet["findings"].as_array().expect("a list").iter();
    findings
        .map(|finding| finding["kind"].as_str().expect("a kind"))
        .collect()
}

/// Waits until a service sees these replicas.
fn wait_for(service: &Tollgate, expected: &[&str]) -> Value {
    wait::until(PATIENCE, &format!("{expected:?}"), || {
        Some(fleet(service)).filter(|fleet| names(fleet) == expected)
    })
}

#[test]
fn every_replica_sees_all_of_them() {
    let server = Server::start(Flavor::Redis);
    let yaml = config(&server.url(), 3);
    let mut services = ["a", "b", "c"].map(|name| replica(name, &yaml));
    for (service, expected) in
        services
            .iter()
            .zip([["a", "b", "c"], ["b", "a", "c"], ["c", "a", "b"]])
    {
        let fleet = wait_for(service, &expected);
        assert_eq!(kinds(&fleet), Vec::<&str>::new(), "{fleet}");
        assert_eq!(
            (&fleet["seen"], &fleet["shared"]),
            (&3.into(), &true.into())
        );
        assert_eq!(fleet["replica"], fleet["replicas"][0]["name"]);
        assert_eq!(fleet["replicas"][0]["this"], true);
        assert_eq!(fleet["replicas"][1]["this"], false);
        assert_eq!(fleet["replicas"][1]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(fleet["replicas"][1]["store_up"], true);
    }

    // Two decisions of each replica, of which three are denied.
    for service in services.iter().chain(&services) {
        service.check(ANN);
    }
    let expected = serde_json::json!({"allowed": 3, "denied": 3, "shadow_denied": 0});
    for service in &services {
        wait::until_true(PATIENCE, "the sums", || {
            fleet(service)["decisions"] == expected
        });
    }

    // One that shuts down is gone at once; one that is killed, after some missed heartbeats.
    services[2].signal("TERM");
    assert!(services[2].wait_for_exit().success());
    let left = wait_for(&services[0], &["a", "b"]);
    assert_eq!(kinds(&left), ["replica_count"]);
    assert_eq!(
        left["findings"][0]["message"],
        "defaults.expected_replicas is 3, but 2 replicas use the store"
    );
    services[1].signal("KILL");
    wait_for(&services[0], &["a"]);
    assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
}

#[test]
fn different_configurations_are_found_until_they_are_the_same() {
    let server = Server::start(Flavor::Valkey);
    let yaml = config(&server.url(), 3);
    let other = yaml
        .replace("limit: 3", "limit: 4")
        .replace("replicas: 3", "replicas: 2");
    let services = [replica("a", &yaml), replica("b", &other)];
    let differ = wait::until(PATIENCE, "the difference", || {
        Some(fleet(&services[1])).filter(|fleet| kinds(fleet) == ["configurations_differ"])
    });
    let message = differ["findings"][0]["message"].as_str().expect("a text");
    assert!(
        message.starts_with("2 replicas use 2 configurations: "),
        "{message}"
    );
    assert!(
        message.contains("(a)") && message.contains("(b)"),
        "{message}"
    );
    assert_ne!(
        differ["replicas"][0]["config"],
        differ["replicas"][1]["config"]
    );

    let metrics = reverse_proxy::get(services[1].admin, "/metrics", &[]).text();
    assert!(
        metrics.contains("\ntollgate_fleet_replicas 2\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("\ntollgate_fleet_configurations 2\n"),
        "{metrics}"
    );

    services[0].rewrite_config(&format!("# The same values.\n{other}"));
    wait::until_true(PATIENCE, "the same configuration", || {
        kinds(&fleet(&services[1])).is_empty()
    });
}

#[test]
fn the_last_known_fleet_is_shown_with_its_age_while_the_store_is_unavailable() {
    let server = Server::start(Flavor::Redis);
    let yaml = config(&server.url(), 3);
    let services = ["a", "b", "c"].map(|name| replica(name, &yaml));
    wait_for(&services[0], &["a", "b", "c"]);

    server.kill();
    let last = wait::until(PATIENCE, "an error", || {
        Some(fleet(&services[0])).filter(|fleet| fleet["error"].is_string())
    });
    assert_eq!(names(&last), ["a", "b", "c"]);
    let read_at = last["read_at_ms"].as_u64().expect("a time");
    // Longer than a heartbeat is kept.
    wait::until_true(PATIENCE, "an age of 8 s", || {
        let fleet = fleet(&services[0]);
        assert_eq!(
            (names(&fleet), fleet["read_at_ms"].as_u64()),
            (names(&last), Some(read_at))
        );
        fleet["age_ms"].as_u64() > Some(8_000)
    });
    assert_eq!(
        services[0].check(ANN).status,
        503,
        "decisions do not wait for the fleet"
    );

    server.restart();
    wait::until_true(PATIENCE, "the fleet to be read again", || {
        let fleet = fleet(&services[0]);
        // The others may report later: no number is shown or judged that is not theirs.
        assert_eq!(kinds(&fleet), Vec::<&str>::new(), "{fleet}");
        assert_eq!(names(&fleet), ["a", "b", "c"]);
        let others = fleet["replicas"].as_array().expect("a list").iter();
        let have_reported = |replica: &Value| replica["seen_ms_ago"].as_u64() < Some(5_000);
        fleet["error"].is_null() && others.into_iter().all(have_reported)
    });
}

#[test]
fn a_memory_store_counts_alone() {
    let service = Tollgate::start();
    let status = reverse_proxy::get(service.admin, "/admin/status", &[]).text();
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let fleet = &status["fleet"];
    assert_eq!(kinds(fleet), ["memory_store"]);
    assert_eq!(
        (&fleet["seen"], &fleet["shared"]),
        (&1.into(), &false.into())
    );
    assert_eq!(
        fleet["replicas"][0]["config"],
        status["config"]["fingerprint"]
    );
    let name = fleet["replica"].as_str().expect("a name");
    assert!(
        name.ends_with(&format!(":{}", service.http.port())),
        "{name}"
    );
}
