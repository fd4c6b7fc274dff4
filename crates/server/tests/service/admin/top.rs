//! `/admin/top` and `tollgate keys top`: the heaviest keys of the limits.

use serde_json::{Value, json};

use testkit::servers::{Flavor, Server};
use testkit::wait;

use super::{CONFIG, check, get, json as body};
use crate::cli::tollgate;
use crate::harness::{PATIENCE, Tollgate};

const ANN: &str = r#"{"client_ip": "203.0.113.7", "email": "ann@example.com"}"#;
const BOB: &str = r#"{"client_ip": "203.0.113.7", "email": "bob@example.com"}"#;
const SECRET: &str = r#"{"header:x-api-key": "sk-live-0123456789"}"#;
const TENANT: &str = r#"{"tenant": "acme"}"#;

fn top(service: &Tollgate, query: &str) -> Value {
    body(&get(service, &format!("/admin/top{query}")))
}

/// The limit, the value of the last part of the key, the units and the requests of each key.
fn rows(top: &Value) -> Vec<(String, String, u64, u64)> {
    let keys = top["keys"].as_array().expect("a list of keys");
    let row = |key: &Value| {
        let parts = key["key"].as_array().expect("the parts of a key");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let number = |name: &str| key[name].as_u64().expect("a number");
        assert_eq!(number("error"), 0, "few keys are counted exactly");
        (
            text(&key["limit"]),
            text(&parts[parts.len() - 1]["value"]),
            number("units"),
            number("requests"),
        )
    };
    keys.iter().map(row).collect()
}

fn row(limit: &str, value: &str, units: u64, requests: u64) -> (String, String, u64, u64) {
    (limit.into(), value.into(), units, requests)
}

#[test]
fn the_heaviest_keys_are_listed_without_anyone_watching() {
    let service = Tollgate::with_config(CONFIG);
    (0..7).for_each(|_| drop(check(&service, "login", ANN)));
    (0..4).for_each(|_| drop(check(&service, "login", BOB)));
    (0..7).for_each(|_| drop(check(&service, "quota", TENANT)));

    let denied = [
        row("login", "ann@example.com", 4, 4),
        // A shadow limit lists what it would have denied.
        row("quota", "acme", 2, 2),
        row("login", "bob@example.com", 1, 1),
    ];
    for minutes in [1, 5, 60] {
        let top = top(&service, &format!("?by=denied&minutes={minutes}"));
        assert_eq!(rows(&top), denied, "{minutes} minutes");
        assert_eq!(
            (&top["minutes"], &top["by"], &top["replicas"]),
            (&minutes.into(), &"denied".into(), &1.into())
        );
    }
    assert_eq!(rows(&top(&service, "")), denied, "the defaults");
    assert_eq!(rows(&top(&service, "?count=1")), denied[..1]);

    let admitted = rows(&top(&service, "?by=admitted&limit=login"));
    assert_eq!(admitted.len(), 2);
    assert!(admitted.contains(&row("login", "ann@example.com", 3, 3)));
    assert_eq!(
        top(&service, "?limit=login&count=1")["keys"][0]["key"],
        json!([
            {"attribute": "client_ip", "value": "203.0.113.7", "hashed": false},
            {"attribute": "email", "value": "ann@example.com", "hashed": false},
        ])
    );
}

#[test]
fn units_are_listed_not_only_requests() {
    let service = Tollgate::with_config(CONFIG);
    let body = format!(r#"{{"attributes": {SECRET}, "limits": ["plan"], "cost": 7}}"#);
    assert_eq!(service.check(&body).status, 200);
    assert_eq!(service.check(&body).status, 429);
    for by in ["admitted", "denied"] {
        let top = top(&service, &format!("?by={by}"));
        let [(limit, _, units, requests)] = &rows(&top)[..] else {
            panic!("{top}");
        };
        assert_eq!((limit.as_str(), *units, *requests), ("plan", 7, 1), "{by}");
    }
}

#[test]
fn a_hashed_key_is_found_by_its_value_and_never_shown() {
    let service = Tollgate::with_config(CONFIG);
    drop(check(&service, "plan", SECRET));
    let top = top(&service, "?by=admitted");
    let hashed = &top["keys"][0]["key"][0];
    assert_eq!(hashed["hashed"], true);
    let path = "/admin/keys?limit=plan&header:x-api-key=sk-live-0123456789";
    assert_eq!(body(&get(&service, path))["key"][0], *hashed);
    assert!(!top.to_string().contains("sk-live"), "{top}");

    let admin = service.admin.to_string();
    let found = tollgate(&[
        "keys",
        "get",
        "--admin",
        &admin,
        "-l",
        "plan",
        "-a",
        "header:x-api-key=sk-live-0123456789",
    ]);
    let listed = tollgate(&["keys", "top", "--admin", &admin, "--admitted"]);
    let (found, listed) = (
        String::from_utf8_lossy(&found.stdout),
        String::from_utf8_lossy(&listed.stdout),
    );
    let hash = hashed["value"].as_str().expect("a hash");
    assert!(
        found.contains(hash) && listed.contains(hash),
        "{found}{listed}"
    );
    assert!(listed.contains("tollgate keys get --limit"), "{listed}");
}

/// The new configuration hashes an attribute that was in clear: it must not show any more.
#[test]
fn keys_of_another_recipe_are_forgotten() {
    let service = Tollgate::with_config(CONFIG);
    (0..5).for_each(|_| drop(check(&service, "login", ANN)));
    (0..6).for_each(|_| drop(check(&service, "quota", TENANT)));
    assert_eq!(rows(&top(&service, "")).len(), 2);

    service.rewrite_config(
        &CONFIG
            .replace(r#"["header:x-api-key"]"#, r#"["header:x-api-key", email]"#)
            .replace("name: quota, key: [tenant]", "name: quota, key: [account]"),
    );
    service.wait_for_log("configuration reloaded");
    assert_eq!(rows(&top(&service, "")), []);
}

#[test]
fn wrong_parameters_are_named() {
    let service = Tollgate::with_config(CONFIG);
    for (query, code, detail) in [
        ("?minutes=7", "invalid-parameter", "expected 1, 5 or 60"),
        (
            "?by=cost",
            "invalid-parameter",
            "expected denied or admitted",
        ),
        ("?count=0", "invalid-parameter", "a number from 1 to 100"),
        (
            "?limits=a",
            "unknown-parameter",
            "limit, by, minutes or count",
        ),
        ("?limit=logn", "unknown-limit", "login"),
    ] {
        let response = get(&service, &format!("/admin/top{query}"));
        let problem = body(&response);
        assert!((400..500).contains(&response.status), "{query}: {problem}");
        assert_eq!(problem["code"], code, "{query}");
        let found = problem["detail"].as_str().unwrap_or_default();
        assert!(found.contains(detail), "{query}: {found}");
    }
}

#[test]
fn the_keys_of_all_replicas_are_added_up() {
    let store = Server::start(Flavor::Redis);
    let config = format!(
        "store: {{ type: redis, endpoints: ['{}'], timeout: 1s }}\n{CONFIG}",
        store.url()
    );
    let replicas = [
        Tollgate::with_config(&config),
        Tollgate::with_config(&config),
    ];
    for replica in &replicas {
        (0..6).for_each(|_| drop(check(replica, "login", ANN)));
        drop(check(replica, "plan", SECRET));
    }

    // Of twelve requests, the shared limit admitted three.
    let expected = vec![row("login", "ann@example.com", 9, 9)];
    for replica in &replicas {
        let mut found = Value::Null;
        wait::until_true(PATIENCE, "the keys of both replicas", || {
            found = top(replica, "?minutes=1");
            found["replicas"] == 2 && rows(&found) == expected
        });
        assert!(!found.to_string().contains("sk-live"));
    }
    let admitted = rows(&top(&replicas[0], "?minutes=1&by=admitted&limit=plan"));
    assert_eq!(admitted[0].2, 2, "one of each replica, under the same hash");
}
