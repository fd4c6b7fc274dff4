//! The service on a shared store: several replicas, and outages of the store.

use std::net::{TcpListener, TcpStream};
use std::thread;

use testkit::ports::Port;
use testkit::reverse_proxy;
use testkit::servers::{Cluster, Flavor, Server};
use testkit::wait;

use crate::harness::{PATIENCE, Tollgate};

const ANN: &str = r#"{"attributes": {"user": "ann"}}"#;

/// A limit of ten per hour with this failure policy.
fn on(url: &str, policy: &str) -> String {
    format!(
        "store: {{type: redis, endpoints: ['{url}'], timeout: 250ms}}\n\
         defaults: {{on_store_failure: {policy}, expected_replicas: 2}}\n\
         limits: [{{name: api, key: [user], algorithm: sliding_log, limit: 10, window: 1h}}]"
    )
}

#[test]
fn replicas_share_a_limit() {
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let server = Server::start(flavor);
        let services: Vec<Tollgate> = (0..3)
            .map(|_| Tollgate::with_config(&on(&server.url(), "deny")))
            .collect();
        wait::until_true(PATIENCE, "every instance to reach the store", || {
            services
                .iter()
                .all(|service| service.post("/v1/peek", ANN).status == 200)
        });
        let statuses: Vec<u16> = (0..12)
            .map(|round| services[round % services.len()].check(ANN).status)
            .collect();
        assert_eq!(
            statuses,
            [200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 429, 429],
            "{flavor:?}"
        );
        let refund = services[2].post("/v1/refund", ANN);
        assert_eq!(
            (refund.status, refund.text().as_str()),
            (200, r#"{"refunded":true}"#)
        );
        assert_eq!(services[0].check(ANN).status, 200);
        assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
    }
}

/// A replica that cannot answer must not accept: it starts without a store that accepts connections
/// and says nothing, for which it waits first.
#[test]
fn a_replica_that_starts_without_its_store_answers_as_soon_as_it_accepts() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", silent.local_addr().expect("an address"));
    let config = format!(
        "{}\n- {{name: near, key: [user], algorithm: fixed_window, limit: 1, window: 1h, \
         consistency: local}}",
        on(&url, "deny")
            .replace("limits: [{", "limits:\n- {")
            .replace("1h}]", "1h}")
    );

    let port = Port::reserve();
    let http = port.addr();
    let service =
        thread::spawn(move || Tollgate::with(&config, &["--http", &http.to_string()], &[]));
    wait::until_true(PATIENCE, "a replica that accepts", || {
        TcpStream::connect(http).is_ok()
    });
    assert_eq!(reverse_proxy::get(http, "/healthz", &[]).status, 200);

    let service = service.join().expect("the service starts");
    let near = r#"{"attributes": {"user": "bob"}, "limits": ["near"]}"#;
    assert_eq!([200, 429], [(); 2].map(|()| service.check(near).status));
    let denied = service.check(ANN);
    assert_eq!(denied.status, 503);
    let text = denied.text();
    assert!(
        text.contains(r#""degraded":true,"degraded_reason":"unavailable""#),
        "{text}"
    );
}

#[test]
fn a_missing_password_is_logged_in_words() {
    let server = Server::builder(Flavor::Redis).password("secret").start();
    let service = Tollgate::with_config(&on(&format!("redis://{}", server.addr()), "allow"));
    service.wait_for_log("the server requires a password and none is configured");
    assert_eq!(service.check(ANN).status, 200, "it starts nevertheless");
}

#[test]
fn a_cluster_is_one_store() {
    let cluster = Cluster::start(Flavor::Redis, 3, 0);
    let endpoints = cluster.urls().join("', '");
    let service = Tollgate::with_config(&format!(
        "store: {{type: redis-cluster, endpoints: ['{endpoints}'], timeout: 250ms}}\n\
         defaults: {{on_store_failure: deny}}\n\
         limits:\n\
         - {{name: wide, key: [tenant], algorithm: token_bucket, capacity: 100, refill_rate: 1/hour}}\n\
         - {{name: narrow, key: [user], algorithm: sliding_window, limit: 2, window: 1h}}"
    ));
    let both = r#"{"attributes": {"user": "ann", "tenant": "acme"}}"#;
    wait::until_true(PATIENCE, "the cluster", || {
        service.post("/v1/peek", both).status == 200
    });
    assert_eq!(
        [
            service.check(both).status,
            service.check(both).status,
            service.check(both).status
        ],
        [200, 200, 429]
    );
    let left = service
        .post(
            "/v1/peek",
            r#"{"attributes": {"tenant": "acme"}, "limits": ["wide"], "cost": 0}"#,
        )
        .text();
    assert!(
        left.contains(r#""remaining":98"#),
        "denied requests were not charged: {left}"
    );
}

#[test]
fn a_service_starts_without_its_store_and_finds_it_later() {
    let server = Server::start(Flavor::Redis);
    server.kill();
    for (policy, status) in [("allow", 200), ("deny", 503), ("local", 200)] {
        let service = Tollgate::with_config(&on(&server.url(), policy));
        let answer = service.check(ANN);
        assert_eq!(
            (answer.status, answer.header("x-ratelimit-fallback")),
            (status, Some("true")),
            "{policy}"
        );
        assert!(answer.text().contains(r#""degraded":true"#), "{policy}");
        assert_eq!(
            service.post("/v1/refund", ANN).status,
            503,
            "a refund has no failure policy"
        );
        service.wait_for_log("store unavailable; limits fall back");
        assert_eq!(
            testkit::reverse_proxy::get(service.http, "/readyz", &[]).text(),
            r#"{"ready":true,"degraded":true}"#
        );
        server.restart();
        wait::until_true(PATIENCE, "the store to be found", || {
            service.check(ANN).header("x-ratelimit-fallback").is_none()
        });
        service.wait_for_log("store available again");
        let log = service.log();
        assert_eq!(log.lines().count(), 2, "one line at each end: {log}");
        server.command(&["FLUSHALL"]);
        server.kill();
    }
}

/// The store errors that the service has counted: each probe adds one while the store is
/// unavailable.
fn store_errors(service: &Tollgate) -> u64 {
    let metrics = testkit::reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let counts = metrics
        .lines()
        .filter(|line| line.starts_with("tollgate_store_errors_total{"))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    counts.sum()
}

/// A replica answers reads, so that the store looked available between two writes: nine lines a
/// second were logged.
#[test]
fn a_read_only_replica_is_one_outage_of_two_lines() {
    let (server, primary) = (Server::start(Flavor::Redis), Server::start(Flavor::Redis));
    let service = Tollgate::with_config(&on(&server.url(), "deny"));
    assert_eq!(service.check(ANN).status, 200);
    assert_eq!(service.log(), "", "nothing to report");

    let port = primary.addr().port().to_string();
    server.command(&["REPLICAOF", "127.0.0.1", &port]);
    wait::until_true(PATIENCE, "an outage", || service.check(ANN).status == 503);
    let before = store_errors(&service);
    wait::until_true(PATIENCE, "probes, with a write now and then", || {
        assert_eq!(service.post("/v1/peek", ANN).status, 503);
        assert_eq!(service.check(ANN).status, 503);
        let ready = testkit::reverse_proxy::get(service.http, "/readyz", &[]).text();
        assert_eq!(ready, r#"{"ready":true,"degraded":true}"#);
        store_errors(&service) >= before + 1_000
    });
    service.wait_for_log("READONLY You can't write against a read only replica.");
    assert_eq!(service.log().lines().count(), 1, "{}", service.log());

    server.command(&["REPLICAOF", "NO", "ONE"]);
    service.wait_for_log("store available again");
    assert_eq!(service.check(ANN).status, 200);
    assert_eq!(service.log().lines().count(), 2, "{}", service.log());
}

/// Without traffic only a write shows that a full server has room again: it answers reads all the
/// time.
#[test]
fn a_full_server_is_one_outage_of_two_lines() {
    let server = Server::start(Flavor::Redis);
    let service = Tollgate::with_config(&on(&server.url(), "deny"));
    assert_eq!(service.check(ANN).status, 200);

    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    wait::until_true(PATIENCE, "an outage", || service.check(ANN).status == 503);
    let before = store_errors(&service);
    wait::until_true(PATIENCE, "probes, which write", || {
        store_errors(&service) >= before + 10
    });
    service.wait_for_log("store unavailable; limits fall back");
    assert_eq!(service.log().lines().count(), 1, "{}", service.log());

    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    service.wait_for_log("store available again");
    assert_eq!(service.log().lines().count(), 2, "{}", service.log());
}

#[test]
fn the_password_is_never_shown() {
    let secret = "open-sesame-open-sesame";
    let server = Server::builder(Flavor::Redis)
        .password("another-word")
        .start();
    let url = format!("redis://:{secret}@{}", server.addr());
    let yaml = on("${URL}", "deny");
    let service = Tollgate::with(&yaml, &[], &[("URL", &url), ("TOLLGATE_LOG", "trace")]);
    let answer = service.check(ANN);
    assert_eq!(answer.status, 503);
    service.wait_for_log("store unavailable; limits fall back");
    assert!(!service.log().contains(secret) && !answer.text().contains(secret));
}
