//! Lockouts: a key that is denied too often is locked, whatever replica denies it.

use serde_json::{Value, json};
use testkit::reverse_proxy;
use testkit::servers::{Flavor, Server};
use testkit::wait;
use tollgate_envoy::Code;

use crate::grpc::client::Client;
use crate::grpc::{self, about, summary};
use crate::harness::{PATIENCE, Tollgate};
use crate::resp::{connect, integers};

const ANN: &str = r#"{"attributes": {"user": "ann"}}"#;
const LIMITS: &str = "
version: 1
limits:
  - name: login
    key: [user]
    algorithm: sliding_log
    limit: 2
    window: 1h
    lockout: { after: 3, within: 10m, for: 2h, factor: 4, max: 24h }
  - { name: api, key: [user], algorithm: token_bucket, capacity: 100, refill_rate: 1/h }
";

fn body(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("the answer is JSON")
}

fn peek(service: &Tollgate) -> Value {
    body(&service.post("/v1/peek", ANN).body)
}

/// Two requests pass, two are denied, and the third denial locks the key.
fn lock_out(replicas: &[&Tollgate]) {
    let mut turns = replicas.iter().cycle();
    let mut check = || turns.next().expect("a replica").check(ANN);
    for status in [200, 200, 429, 429] {
        let answer = check();
        assert_eq!(answer.status, status);
        assert!(!answer.text().contains("locked_out"), "{}", answer.text());
    }

    let locked = check();
    let problem = body(&locked.body);
    assert_eq!(locked.status, 429);
    let kind = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";
    assert_eq!(problem["type"], kind);
    assert_eq!(problem["violated-policies"], json!(["login"]));
    let login = &problem["limits"][0];
    assert_eq!(
        (&login["locked_out"], &login["retry_after_ms"]),
        (&json!(true), &json!(7_200_000))
    );
    let api = &problem["limits"][1];
    assert_eq!(
        (&api["remaining"], &api["locked_out"]),
        (&json!(98), &Value::Null)
    );
}

fn lockouts(service: &Tollgate) -> Vec<String> {
    let page = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let samples = page.lines();
    let samples = samples.filter_map(|line| line.strip_prefix("tollgate_lockouts_total"));
    samples.map(str::to_owned).collect()
}

#[test]
fn a_key_is_locked_visible_and_unlocked_in_memory() {
    let service = Tollgate::with_config(LIMITS);
    assert_eq!(lockouts(&service), Vec::<String>::new());
    lock_out(&[&service]);
    assert_eq!(service.check(ANN).status, 429);
    assert_eq!(lockouts(&service), [r#"{limit="login"} 1"#]);

    let login = &peek(&service)["limits"][0];
    assert_eq!(login["lockout"]["level"], 1);
    assert!(login["lockout"]["locked_ms"].as_u64() > Some(7_000_000));
    assert_eq!(peek(&service)["limits"][1].get("lockout"), None);

    let reset = json!({"limits": ["login"], "attributes": {"user": "ann"}}).to_string();
    assert_eq!(service.post("/v1/reset", &reset).status, 200);
    let login = &peek(&service)["limits"][0];
    let unlocked = json!({"denials": 0, "locked_ms": 0, "level": 0});
    assert_eq!(login["lockout"], unlocked);
    assert_eq!(service.check(ANN).status, 200);
}

#[test]
fn all_replicas_count_and_lock_together() {
    let server = Server::start(Flavor::Valkey);
    let url = server.url();
    let config = format!("{LIMITS}store: {{ type: redis, endpoints: ['{url}'], timeout: 2s }}\n");
    let [one, other] = [(); 2].map(|()| Tollgate::with_config(&config));
    for service in [&one, &other] {
        wait::until_true(PATIENCE, "the service to reach the store", || {
            peek(service)["degraded"] == false
        });
    }

    lock_out(&[&one, &other]);
    assert_eq!(
        [&one, &other].map(|service| service.check(ANN).status),
        [429; 2]
    );
    let [first, second] = [&one, &other].map(|service| lockouts(service).len());
    assert_eq!(
        first + second,
        1,
        "the replica that locked the key counts it"
    );
    assert_eq!(peek(&other)["limits"][0]["lockout"]["level"], 1);

    let key = "/admin/keys?limit=login&user=ann";
    assert_eq!(reverse_proxy::get(one.admin, key, &[]).status, 200);
    let shown = body(&reverse_proxy::get(one.admin, key, &[]).body);
    assert_eq!(shown["lockout"]["level"], 1);
}

/// A lockout is a denial of its limit, so every front says so in its own way.
#[test]
fn every_front_denies_a_locked_key() {
    let limits = "
limits:
  - name: address
    key: [client_ip]
    algorithm: sliding_log
    limit: 1
    window: 1m
    lockout: { after: 1, within: 10m, for: 2h }
client_ip: { trusted_proxies: ['127.0.0.0/8'] }
";
    let service = Tollgate::with_resp(limits);
    let check = json!({"op": "check", "attributes": {"client_ip": "203.0.113.7"}});
    let batch = json!({"requests": [check, check, check]}).to_string();
    let answers = body(&service.post("/v1/batch", &batch).body);
    let statuses = [0, 1, 2].map(|index| answers["answers"][index]["status"].clone());
    assert_eq!(statuses, [200, 429, 429]);
    let locked = &answers["answers"][2]["body"];
    let kind = locked["type"].as_str().expect("a type");
    assert!(kind.ends_with("#abnormal-usage-detected"), "{kind}");
    assert_eq!(locked["limits"][0]["locked_out"], true);

    let headers = [
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-uri", "/"),
        ("x-forwarded-method", "GET"),
    ];
    let path = "/v1/forward-auth?proxy=traefik";
    let denied = reverse_proxy::get(service.http, path, &headers);
    assert_eq!(denied.status, 429);
    assert!(denied.text().contains("#abnormal-usage-detected"));
    let longer_than_the_window = |secs: i64| (3_600..=7_200).contains(&secs);
    let retry_after = denied.header("retry-after").expect("an end");
    assert!(longer_than_the_window(
        retry_after.parse().expect("seconds")
    ));

    let denied = Client::connect(service.grpc).ask(&about(&[("client_ip", "203.0.113.7")]));
    let (code, limit, _) = summary(&denied.statuses[0]);
    assert_eq!((code, limit), (Code::OverLimit, "address"));
    let until = denied.statuses[0].duration_until_reset.expect("an end");
    assert!(longer_than_the_window(until.seconds), "{until:?}");
    assert!(grpc::body(&denied).contains("#abnormal-usage-detected"));

    let reply = connect(&service).call(&["TOLLGATE.CHECK", "address", "203.0.113.7"]);
    let reply = integers(&reply.expect("a reply"));
    assert_eq!(reply[0], 1);
    assert!(longer_than_the_window(reply[3]), "{reply:?}");
    assert_eq!(lockouts(&service), [r#"{limit="address"} 1"#], "only once");
}
