//! `/admin/keys`: showing and resetting a key, and invalid queries.

use testkit::servers::{Flavor, Server};

use super::{CONFIG, check, get, json, send};
use crate::harness::Tollgate;

const ANN: &str = r#"{"client_ip": "203.0.113.7", "email": "ann+x@example.com"}"#;
const ANN_KEY: &str = "/admin/keys?limit=login&client_ip=203.0.113.7&email=ann%2Bx%40example.com";

#[test]
fn showing_a_key_consumes_nothing() {
    let service = Tollgate::with_config(CONFIG);
    assert_eq!(check(&service, "login", ANN).status, 200);
    for _ in 0..3 {
        let shown = json(&get(&service, ANN_KEY));
        assert_eq!(
            (&shown["name"], &shown["limit"], &shown["remaining"]),
            (&"login".into(), &3.into(), &2.into())
        );
        assert_eq!(
            (&shown["source"], &shown["degraded"]),
            (&"store".into(), &false.into())
        );
        assert!(shown["retry_after_ms"].is_null(), "{shown}");
        assert!(
            shown["reset_after_ms"]
                .as_u64()
                .is_some_and(|ms| (1..=900_000).contains(&ms)),
            "{shown}"
        );
        let key = serde_json::json!([
            {"attribute": "client_ip", "value": "203.0.113.7", "hashed": false},
            {"attribute": "email", "value": "ann+x@example.com", "hashed": false},
        ]);
        assert_eq!(shown["key"], key);
    }
    (0..2).for_each(|_| assert_eq!(check(&service, "login", ANN).status, 200));
    let empty = json(&get(&service, ANN_KEY));
    assert_eq!(empty["remaining"], 0);
    assert!(
        empty["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0),
        "{empty}"
    );
}

/// For example `tier`, if the tier is chosen by a header.
#[test]
fn attributes_that_the_limit_does_not_use_are_named() {
    let service = Tollgate::with_config(CONFIG);
    assert!(json(&get(&service, ANN_KEY)).get("ignored").is_none());
    let shown = json(&get(
        &service,
        &format!("{ANN_KEY}&method=GET&tier=pro&plan=x"),
    ));
    assert_eq!(shown["ignored"], serde_json::json!(["tier", "plan"]));
}

#[test]
fn a_reset_affects_only_its_key() {
    let service = Tollgate::with_config(CONFIG);
    let bob = r#"{"client_ip": "203.0.113.7", "email": "bob@example.com"}"#;
    for _ in 0..3 {
        assert_eq!(check(&service, "login", ANN).status, 200);
        assert_eq!(check(&service, "login", bob).status, 200);
    }
    assert_eq!(check(&service, "login", ANN).status, 429);
    let reset = send(&service, "DELETE", ANN_KEY);
    assert_eq!((reset.status, &json(&reset)["reset"]), (200, &true.into()));
    assert_eq!(json(&get(&service, ANN_KEY))["remaining"], 3);
    assert_eq!(check(&service, "login", ANN).status, 200);
    assert_eq!(check(&service, "login", bob).status, 429);
    service.wait_for_log("a key was reset through the admin port");
    assert!(!service.log().contains("example.com"), "{}", service.log());
}

#[test]
fn permits_of_a_local_limit_are_reset_too() {
    let service = Tollgate::with_config(CONFIG);
    let tenant = r#"{"tenant": "acme"}"#;
    (0..2).for_each(|_| assert_eq!(check(&service, "jobs", tenant).status, 200));
    assert_eq!(check(&service, "jobs", tenant).status, 429);
    let key = "/admin/keys?limit=jobs&tenant=acme";
    assert_eq!(
        (
            &json(&get(&service, key))["source"],
            &json(&get(&service, key))["remaining"]
        ),
        (&"local".into(), &0.into())
    );
    assert_eq!(send(&service, "DELETE", key).status, 200);
    assert_eq!(check(&service, "jobs", tenant).status, 200);
}

#[test]
fn hashed_attributes_are_shown_as_hashes_and_name_the_same_key() {
    let service = Tollgate::with_config(CONFIG);
    let secret = "sk-live-0123456789";
    let attributes =
        format!(r#"{{"header:x-api-key": "{secret}", "tier": "pro", "client_ip": "203.0.113.7"}}"#);
    assert_eq!(check(&service, "plan", &attributes).status, 200);
    let found = get(
        &service,
        &format!("/admin/keys?limit=plan&header:X-Api-Key={secret}&tier=pro"),
    );
    let shown = json(&found);
    assert_eq!(
        (&shown["tier"], &shown["limit"]),
        (&"pro".into(), &100.into())
    );
    assert_eq!(shown["remaining"], 99, "the key that was charged");
    assert_eq!(
        (&shown["key"][0]["attribute"], &shown["key"][0]["hashed"]),
        (&"header:x-api-key".into(), &true.into())
    );
    let reset = send(
        &service,
        "DELETE",
        &format!("/admin/keys?limit=plan&header:x-api-key={secret}"),
    );
    for text in [found.text(), reset.text(), service.log()] {
        assert!(!text.contains(secret), "{text}");
    }
    let by_address = json(&get(
        &service,
        "/admin/keys?limit=plan&client_ip=203.0.113.7",
    ));
    assert_eq!(
        by_address["key"][0]["value"], "203.0.113.7",
        "the second alternative, if the first is missing"
    );
    assert_eq!(by_address["remaining"], 10);
}

#[test]
fn invalid_queries_are_rejected_with_a_code() {
    let service = Tollgate::with_config(CONFIG);
    for (query, status, code) in [
        ("", 400, "no-limit"),
        ("?client_ip=203.0.113.7", 400, "no-limit"),
        ("?limit=login&email=%ff", 400, "not-text"),
        ("?limit=login&email=a&email=b", 400, "parameter-twice"),
        ("?limit=nope&client_ip=203.0.113.7", 422, "unknown-limit"),
        ("?limit=override:second", 422, "unknown-limit"),
        (
            "?limit=login&client_ip=203.0.113.7",
            422,
            "missing-attribute",
        ),
        ("?limit=login&client_ip=here&email=a", 422, "bad-address"),
        ("?limit=quota", 422, "missing-attribute"),
    ] {
        for method in ["GET", "DELETE"] {
            let rejected = send(&service, method, &format!("/admin/keys{query}"));
            assert_eq!(
                (rejected.status, json(&rejected)["code"].as_str()),
                (status, Some(code)),
                "{method} {query}"
            );
            assert_eq!(
                rejected.header("content-type"),
                Some("application/problem+json")
            );
        }
    }
}

#[test]
fn while_the_store_is_unavailable_keys_are_degraded_and_resets_fail() {
    let gone = Server::start(Flavor::Redis);
    gone.kill();
    let config = format!(
        "store: {{ type: redis, endpoints: [\"redis://{}\"], timeout: 50ms }}\n{}",
        gone.addr(),
        CONFIG.trim_start()
    );
    let service = Tollgate::with_config(&config);
    let shown = json(&get(&service, ANN_KEY));
    assert_eq!(
        (&shown["source"], &shown["degraded"]),
        (&"fallback".into(), &true.into())
    );
    assert_eq!(
        (&shown["fallback"], &shown["remaining"]),
        (&"deny".into(), &0.into())
    );
    let rejected = send(&service, "DELETE", ANN_KEY);
    assert_eq!(
        (rejected.status, json(&rejected)["code"].as_str()),
        (503, Some("store-unavailable"))
    );
    assert_eq!(rejected.header("retry-after"), Some("1"));
}
