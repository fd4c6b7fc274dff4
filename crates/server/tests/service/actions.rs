//! Blocks, exemptions, overrides and shadow switches on real replicas that share a store.

mod bad_rows;
mod envoy;
mod fail_over;
mod fronts;

use serde_json::{Value, json};
use testkit::processes::Directory;
use testkit::reverse_proxy::{self, Response};
use testkit::servers::{Flavor, Server};
use testkit::wait;

use crate::harness::{PATIENCE, Tollgate};

const ANN: &str = r#"{"attributes": {"client_ip": "203.0.113.7"}}"#;
const CONSISTENCIES: [&str; 4] = ["strict", "leased", "eventual", "local"];

fn config(server: &Server, consistency: &str) -> String {
    let url = server.url();
    format!(
        "store: {{type: redis, endpoints: ['{url}'], timeout: 1s}}\n\
         defaults: {{on_store_failure: deny, expected_replicas: 2, consistency: {consistency}}}\n\
         limits: [{{name: api, key: [client_ip], algorithm: fixed_window, limit: 4, window: 1h}}]"
    )
}

fn replicas(server: &Server, consistency: &str, count: usize) -> Vec<Tollgate> {
    let config = config(server, consistency);
    let replicas: Vec<Tollgate> = (0..count).map(|_| Tollgate::with_config(&config)).collect();
    wait::until_true(PATIENCE, "every replica to reach the store", || {
        let ready = |replica: &Tollgate| replica.post("/v1/peek", ANN).status == 200;
        replicas.iter().all(ready)
    });
    replicas
}

fn send(service: &Tollgate, method: &str, path: &str, body: &Value) -> Response {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    reverse_proxy::send(service.admin, method, path, &[], body.as_bytes())
}

/// Acts, and returns the id.
fn act(service: &Tollgate, plural: &str, more: &Value) -> String {
    let mut body = json!({"limit": "api", "for": "1h", "reason": "a test", "by": "ann"});
    let key = json!({"client_ip": "203.0.113.7"});
    let members = body.as_object_mut().expect("an object");
    if plural != "shadows" {
        members.insert("key".to_owned(), key);
    }
    members.extend(more.as_object().cloned().unwrap_or_default());

    let action = change(service, "POST", &format!("/admin/{plural}"), &body);
    action["id"].as_str().expect("an id").to_owned()
}

/// Acts or undoes, and returns the response.
fn change(service: &Tollgate, method: &str, path: &str, body: &Value) -> Value {
    let response = send(service, method, path, body);
    assert_eq!(response.status, 200, "{}", response.text());
    serde_json::from_str(&response.text()).expect("JSON")
}

fn undo(service: &Tollgate, plural: &str, id: &str) {
    change(
        service,
        "DELETE",
        &format!("/admin/{plural}/{id}"),
        &Value::Null,
    );
}

fn check(service: &Tollgate) -> (u16, Value) {
    let response = service.check(ANN);
    let body = serde_json::from_str(&response.text()).expect("JSON");
    (response.status, body)
}

/// Waits until every replica decides like this.
fn until_all(replicas: &[Tollgate], what: &str, holds: impl Fn(u16, &Value) -> bool) {
    wait::until_true(PATIENCE, what, || {
        replicas.iter().all(|replica| {
            let (status, body) = check(replica);
            holds(status, &body)
        })
    });
}

#[test]
fn a_block_of_one_replica_denies_on_all_and_is_undone_on_another() {
    let server = Server::start(Flavor::Redis);
    for consistency in CONSISTENCIES {
        let replicas = replicas(&server, consistency, 2);
        let id = act(&replicas[0], "blocks", &json!({"status": 403}));
        assert_eq!(check(&replicas[0]).0, 403, "at once where it was done");
        until_all(&replicas, "the block", |status, body| {
            status == 403 && body["source"] == "block"
        });
        let (_, body) = check(&replicas[1]);
        let kind = body["type"].as_str().expect("a type");
        assert!(kind.ends_with("#abnormal-usage-detected"), "{kind}");
        assert_eq!(body["limits"][0]["blocked"], true, "{consistency}");
        assert!(body["limits"][0]["retry_after_ms"].as_u64() > Some(3_500_000));
        let other = replicas[1].check(r#"{"attributes": {"client_ip": "203.0.113.8"}}"#);
        assert_eq!(other.status, 200, "another key");

        undo(&replicas[1], "blocks", &id);
        until_all(&replicas, "the end of the block", |_, body| {
            body["source"] != "block"
        });
        drop(server.command(&["FLUSHALL"]));
    }
}

/// The other replica has had no time to read the action.
#[test]
fn any_replica_can_undo_at_once_what_the_store_knows() {
    let server = Server::start(Flavor::Valkey);
    let replicas = replicas(&server, "strict", 2);
    for round in 0..20 {
        let id = act(&replicas[round % 2], "blocks", &json!({}));
        undo(&replicas[(round + 1) % 2], "blocks", &id);
        let missing = send(
            &replicas[round % 2],
            "DELETE",
            &format!("/admin/blocks/{id}"),
            &Value::Null,
        );
        assert_eq!(missing.status, 404, "it is removed: {}", missing.text());
    }
    until_all(&replicas, "no block", |_, body| body["source"] != "block");
    assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
}

/// The store is down while a replica starts, and comes back without any data.
#[test]
fn a_replica_with_a_directory_knows_the_actions_while_the_store_is_down() {
    let server = Server::start(Flavor::Redis);
    let config = config(&server, "strict");
    let directory = Directory::create();
    let path = directory.path().to_str().expect("UTF-8");
    for (arguments, variables) in [
        (&["--state-dir", path][..], &[][..]),
        (&[], &[("STATE_DIRECTORY", path)]),
    ] {
        let mut first = Tollgate::with(&config, arguments, variables);
        let id = act(&first, "blocks", &json!({"status": 403}));
        first.signal("TERM");
        assert!(first.wait_for_exit().success());
        server.kill();

        let second = Tollgate::with(&config, arguments, variables);
        assert_eq!(check(&second).0, 403);
        let without = Tollgate::with_config(&config);
        assert_eq!(check(&without).0, 503, "the policy of the limit");
        server.restart();
        server.command(&["FLUSHALL"]);
        until_all(&[without], "the block", |status, _| status == 403);
        wait::until_true(PATIENCE, "the store to be used", || {
            let path = format!("/admin/blocks/{id}");
            send(&second, "DELETE", &path, &Value::Null).status == 200
        });
    }
}

#[test]
fn an_exempt_key_is_never_denied_and_not_charged() {
    let server = Server::start(Flavor::Redis);
    for consistency in CONSISTENCIES {
        let replicas = replicas(&server, consistency, 2);
        let id = act(&replicas[0], "exemptions", &json!({}));
        until_all(&replicas, "the exemption", |_, body| {
            body["source"] == "exempt"
        });
        for round in 0..20 {
            let (status, body) = check(&replicas[round % 2]);
            assert_eq!((status, &body["limits"][0]["exempt"]), (200, &json!(true)));
        }
        undo(&replicas[0], "exemptions", &id);
        until_all(&replicas, "the end", |_, body| body["source"] != "exempt");
        drop(server.command(&["FLUSHALL"]));
    }
}

#[test]
fn an_override_changes_the_numbers_on_all_replicas() {
    let server = Server::start(Flavor::Redis);
    for consistency in CONSISTENCIES {
        let replicas = replicas(&server, consistency, 2);
        let limit_is = |limit: u64| move |_: u16, body: &Value| body["limits"][0]["limit"] == limit;
        let id = act(&replicas[0], "overrides", &json!({"multiply": 100}));
        until_all(&replicas, "the multiple", limit_is(400));
        for _ in 0..10 {
            assert_eq!(check(&replicas[1]).0, 200, "{consistency}");
        }
        let same = act(&replicas[1], "overrides", &json!({"quota": {"limit": 7}}));
        assert_eq!(same, id, "it replaces the other one");
        until_all(&replicas, "the numbers", limit_is(7));
        undo(&replicas[0], "overrides", &id);
        until_all(&replicas, "the end of the override", limit_is(4));
        drop(server.command(&["FLUSHALL"]));
    }
}

#[test]
fn a_limit_is_switched_to_shadow_on_all_replicas() {
    let server = Server::start(Flavor::Redis);
    for consistency in CONSISTENCIES {
        let replicas = replicas(&server, consistency, 2);
        wait::until_true(PATIENCE, "a denial", || {
            replicas.iter().all(|replica| check(replica).0 == 429)
        });
        let id = act(&replicas[0], "shadows", &json!({"shadow": true}));
        until_all(&replicas, "shadow", |status, body| {
            status == 200 && body["limits"][0]["shadow"] == true
        });
        undo(&replicas[1], "shadows", &id);
        until_all(&replicas, "enforcement", |status, _| status == 429);
        drop(server.command(&["FLUSHALL"]));
    }
}

#[test]
fn eight_replicas_block_a_key_and_a_restarted_one_still_does() {
    let server = Server::start(Flavor::Redis);
    let mut replicas = replicas(&server, "leased", 8);
    act(&replicas[3], "blocks", &json!({}));
    until_all(&replicas, "the block on 8 of 8", |status, body| {
        status == 429 && body["source"] == "block"
    });

    replicas.truncate(1);
    let restarted = Tollgate::with_config(&config(&server, "leased"));
    assert_eq!(
        check(&restarted).1["source"],
        "block",
        "from the first request on"
    );
    let list = reverse_proxy::get(restarted.admin, "/admin/blocks?limit=api", &[]).text();
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let block = &list["blocks"][0];
    assert_eq!(
        (&block["by"], &block["reason"]),
        (&json!("ann"), &json!("a test"))
    );
    assert_eq!(block["key"][0]["value"], "203.0.113.7");
}

/// The response says which replicas know, and what it says is true: no other check is needed.
#[test]
fn a_change_that_waits_says_which_replicas_know() {
    let server = Server::start(Flavor::Redis);
    let replicas = replicas(&server, "local", 4);
    let fleet = |replica: &Tollgate| -> Value {
        let text = reverse_proxy::get(replica.admin, "/admin/fleet", &[]).text();
        serde_json::from_str(&text).expect("JSON")
    };
    wait::until_true(PATIENCE, "the first replica to see all", || {
        fleet(&replicas[0])["seen"] == 4
    });

    let block = json!({
        "limit": "api", "key": {"client_ip": "203.0.113.7"},
        "for": "1h", "reason": "a test", "by": "ann",
    });
    let known = json!({"seen": 4, "current": 4, "behind": []});
    let path = "/admin/blocks?wait=10s";
    let action = change(&replicas[0], "POST", path, &block);
    assert_eq!(action["replicas"], known, "{action}");
    for replica in &replicas {
        assert_eq!(check(replica).1["source"], "block");
    }
    assert_eq!(fleet(&replicas[0])["replicas"][3]["actions_current"], true);

    let name = fleet(&replicas[2])["replica"].clone();
    replicas[2].signal("STOP");
    let path = format!(
        "/admin/blocks/{}?wait=3s",
        action["id"].as_str().expect("an id")
    );
    let undone = change(&replicas[0], "DELETE", &path, &Value::Null);
    assert_eq!(undone["replicas"]["behind"], json!([name]), "{undone}");
    replicas[2].signal("CONT");

    let action = change(&replicas[1], "POST", "/admin/exemptions?wait=10s", &block);
    assert_eq!(action["replicas"]["behind"], json!([]), "{action}");
    for replica in &replicas {
        assert_eq!(check(replica).1["source"], "exempt");
    }
}

#[test]
fn actions_outlast_an_outage_of_the_store() {
    let server = Server::start(Flavor::Redis);
    let replicas = replicas(&server, "strict", 2);
    act(&replicas[0], "blocks", &json!({}));
    until_all(&replicas, "the block", |_, body| body["source"] == "block");
    drop(server);
    for _ in 0..5 {
        let (status, body) = check(&replicas[1]);
        assert_eq!((status, &body["source"]), (429, &json!("block")));
    }
    let response = send(
        &replicas[0],
        "POST",
        "/admin/exemptions",
        &json!({"limit": "api", "key": {"client_ip": "203.0.113.7"}, "for": "1h", "reason": "r", "by": "b"}),
    );
    assert_eq!(response.status, 503, "{}", response.text());
    assert!(response.text().contains("store-unavailable"));
}

#[test]
fn every_front_denies_a_blocked_key() {
    let yaml = "limits:\n  - { name: api, key: [user], optional: true, algorithm: fixed_window, limit: 4, window: 1h }\n  \
                - { name: address, match: { path: '/**' }, key: [client_ip], algorithm: fixed_window, limit: 4, window: 1h }\n\
                client_ip: { trusted_proxies: ['127.0.0.0/8'] }";
    let service = Tollgate::with_resp(yaml);
    let key = json!({"limit": "address", "key": {"client_ip": "203.0.113.7"}, "for": "1h", "reason": "r", "by": "b", "status": 403});
    assert_eq!(send(&service, "POST", "/admin/blocks", &key).status, 200);
    let headers = [
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-uri", "/x"),
        ("x-forwarded-method", "GET"),
    ];
    let denied = reverse_proxy::get(service.http, "/v1/forward-auth?proxy=traefik", &headers);
    assert_eq!(denied.status, 403, "{}", denied.text());
    let asked = "/v1/forward-auth?proxy=traefik&deny_status=401";
    let denied = reverse_proxy::get(service.http, asked, &headers);
    assert_eq!(denied.status, 401, "deny_status comes first");
    assert_eq!(denied.header("x-ratelimit-status"), Some("403"));

    let batch = json!({"requests": [{"op": "check", "limits": ["address"], "attributes": {"client_ip": "203.0.113.7"}}]});
    let answers = service.post("/v1/batch", &batch.to_string()).text();
    assert!(answers.contains(r#""status":403"#), "{answers}");

    let metrics = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let counted = r#"tollgate_decisions_total{limit="address",outcome="denied",source="block"} 3"#;
    assert!(metrics.contains(counted), "{metrics}");
}

#[test]
fn a_viewer_can_look_and_not_act() {
    let tokens = [
        ("TOLLGATE_ADMIN_TOKEN", "act-token-0123456789"),
        ("TOLLGATE_ADMIN_VIEW_TOKEN", "view-token-0123456789"),
    ];
    let yaml =
        "limits: [{ name: api, key: [user], algorithm: fixed_window, limit: 4, window: 1h }]";
    let service = Tollgate::with(yaml, &[], &tokens);
    let body = r#"{"limit": "api", "key": {"user": "ann"}, "for": "1h", "reason": "r", "by": "b"}"#;
    let sent = |method: &str, path: &str, token: &str| {
        let token = format!("Bearer {token}");
        let headers = [("authorization", token.as_str())];
        reverse_proxy::send(service.admin, method, path, &headers, body.as_bytes())
    };

    for (method, path) in [
        ("POST", "/admin/blocks"),
        ("POST", "/admin/exemptions"),
        ("POST", "/admin/overrides"),
        ("POST", "/admin/shadows"),
        ("DELETE", "/admin/blocks/x"),
        ("DELETE", "/admin/keys?limit=api&user=ann"),
        ("POST", "/admin/reload"),
    ] {
        let refused = sent(method, path, "view-token-0123456789");
        assert_eq!(refused.status, 403, "{method} {path}");
        assert!(
            refused.text().contains("may only view"),
            "{}",
            refused.text()
        );
        assert_eq!(sent(method, path, "no-token-0123456789").status, 401);
    }
    for path in [
        "/admin/blocks",
        "/admin/shadows",
        "/admin/limits",
        "/metrics",
    ] {
        assert_eq!(
            sent("GET", path, "view-token-0123456789").status,
            200,
            "{path}"
        );
    }
    assert_eq!(
        sent("POST", "/admin/blocks", "act-token-0123456789").status,
        200
    );
}
