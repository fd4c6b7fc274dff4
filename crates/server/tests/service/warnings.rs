//! Warnings about settings that do not do what they say: the same texts everywhere.

use std::process::Command;

use serde_json::Value;
use testkit::servers::{Flavor, Server};
use testkit::{reverse_proxy, wait};

use crate::harness::{PATIENCE, Tollgate};

const UNSHARED: &str = "\
defaults: {expected_replicas: 4}
limits:
- {name: api, key: [user], algorithm: sliding_window, limit: 10, window: 1m,
   consistency: leased, on_store_failure: deny}
";

fn get(service: &Tollgate, path: &str) -> String {
    reverse_proxy::send(service.admin, "GET", path, &[], b"").text()
}

fn warnings(service: &Tollgate) -> Vec<String> {
    let status: Value = serde_json::from_str(&get(service, "/admin/status")).expect("JSON");
    let warnings = status["warnings"].as_array().expect("a list").iter();
    warnings
        .map(|text| text.as_str().expect("a text").to_owned())
        .collect()
}

#[test]
fn the_memory_store_is_not_shared() {
    let service = Tollgate::with_config(UNSHARED);
    let shown = warnings(&service);
    assert_eq!(shown.len(), 3, "{shown:#?}");
    for (warning, setting) in shown.iter().zip([
        ":1:31: defaults.expected_replicas: the memory store is not shared",
        ":4:17: limits[api].consistency: no effect with the memory store",
        ":4:43: limits[api].on_store_failure: no effect with the memory store",
    ]) {
        assert!(warning.contains(setting), "{warning}");
        assert!(warning.contains("every process counts by itself"));
        // The log is JSON, which escapes nothing in these texts.
        service.wait_for_log(warning);
    }
    assert!(get(&service, "/metrics").contains("\ntollgate_warnings 3\n"));

    let validated = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .arg("validate")
        .arg(service.config_path())
        .output()
        .expect("the binary was built");
    assert_eq!(validated.status.code(), Some(0));
    let output = String::from_utf8(validated.stdout).expect("text");
    for warning in &shown {
        assert!(
            output.contains(&format!("warning: {warning}\n")),
            "{output}"
        );
    }
}

const LOGIN: &str = "\
tiers: {free: {limit: 5}}
limits:
- {name: login, key: [email], match: {path: /login}, algorithm: fixed_window, limit: 5, window: 1h}
- {name: plan, key: [client_ip], tier: {by: tier, default: free}, algorithm: fixed_window, window: 1h}
- {name: quota, key: [tenant], shadow: true, algorithm: fixed_window, limit: 1, window: 1h}
";

fn forward_auth(service: &Tollgate, query: &str, path: &str) -> u16 {
    let headers = [("X-Original-URI", path), ("X-Forwarded-Uri", path)];
    let target = format!("/v1/forward-auth?{query}");
    reverse_proxy::get(service.http, &target, &headers).status
}

/// Forward-auth never has an e-mail: such a limit refuses every request, and says so.
#[test]
fn what_forward_auth_never_has_is_logged_counted_and_shown() {
    let service = Tollgate::with_config(LOGIN);
    assert_eq!(warnings(&service), Vec::<String>::new(), "no proxy yet");

    for (query, status) in [
        ("proxy=nginx", 422),
        ("proxy=nginx&deny_status=403", 403),
        ("proxy=traefik", 422),
    ] {
        assert_eq!(forward_auth(&service, query, "/login"), status, "{query}");
        assert_eq!(forward_auth(&service, query, "/else"), 200, "{query}");
    }

    let shown = warnings(&service);
    assert_eq!(shown.len(), 3, "{shown:#?}");
    for (warning, text) in shown.iter().zip([
        ":3:22: limits[login].key: forward-auth never has `email`, so every request",
        ":4:40: limits[plan].tier: forward-auth never has `tier`",
        ":5:22: limits[quota].key: forward-auth never has `tenant`, so this limit counts nothing",
    ]) {
        assert!(warning.contains(text), "{warning}");
        service.wait_for_log(text);
    }

    let refused = r#""limit":"login","attribute":"email""#;
    service.wait_for_log("forward-auth refused a request that lacks the key of a limit");
    assert_eq!(
        service.log().matches(refused).count(),
        1,
        "{}",
        service.log()
    );
    let metrics = get(&service, "/metrics");
    for sample in [
        "\ntollgate_request_errors_total{code=\"missing-attribute\"} 3\n",
        "\ntollgate_skipped_total{limit=\"quota\"} 3\n",
        "\ntollgate_warnings 3\n",
    ] {
        assert!(metrics.contains(sample), "{sample}: {metrics}");
    }
}

/// A shadow limit reports what it would do, and never refuses a request.
#[test]
fn a_shadow_limit_skips_what_it_cannot_count() {
    let service = Tollgate::with_config(LOGIN);
    for body in [
        r#"{"attributes": {"client_ip": "203.0.113.7"}}"#,
        r#"{"limits": ["quota"]}"#,
    ] {
        assert_eq!(service.check(body).status, 200, "{body}");
    }
    let peek = service.post("/v1/peek", r#"{"limits": ["quota"]}"#);
    assert_eq!(peek.status, 200, "it charges nothing, so it is not counted");
    let metrics = get(&service, "/metrics");
    assert!(metrics.contains("\ntollgate_skipped_total{limit=\"quota\"} 2\n"));
}

#[test]
fn default_settings_give_no_warning() {
    let service = Tollgate::start();
    assert_eq!(warnings(&service), Vec::<String>::new());
    assert!(get(&service, "/metrics").contains("\ntollgate_warnings 0\n"));
}

#[test]
fn a_redis_that_evicts_is_shown() {
    let server = Server::builder(Flavor::Redis)
        .config("maxmemory", "8mb")
        .config("maxmemory-policy", "allkeys-lru")
        .start();
    let service = Tollgate::with_config(&format!(
        "store: {{type: redis, endpoints: ['{}']}}\n\
         limits: [{{name: api, key: [user], algorithm: sliding_log, limit: 9, window: 1h}}]",
        server.url()
    ));
    let has_warning = |text: &str| {
        let shown = warnings(&service);
        matches!(&*shown, [warning] if warning.contains(text))
    };
    wait::until_true(PATIENCE, "the warning", || {
        has_warning("evicts keys when its memory is full")
    });
    service.wait_for_log("maxmemory-policy allkeys-lru");
    assert!(get(&service, "/metrics").contains("\ntollgate_store_evicted_keys_total 0\n"));

    let mut client = server.client();
    let value = "x".repeat(100_000);
    for key in 0..200 {
        drop(client.call(&["SET", &format!("other:{key}"), &value]));
    }
    // The next check of the service is due when it has connected again.
    drop(client.call(&["CLIENT", "KILL", "SKIPME", "yes"]));
    wait::until_true(PATIENCE, "the evictions", || {
        has_warning("has evicted keys")
    });
    assert!(!get(&service, "/metrics").contains("\ntollgate_store_evicted_keys_total 0\n"));
}
