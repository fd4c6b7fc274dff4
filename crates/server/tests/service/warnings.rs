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
