//! The service matches its description in `openapi.json`: schemathesis generates valid and invalid
//! requests from it and validates every response against it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::reverse_proxy::{self, find_python_tools};

use crate::harness::{Tollgate, write_config};

/// Limits of every kind. Some apply to nearly every request, so that requests are allowed and
/// denied. The secret is the one that sealed the tokens of the description.
const LIMITS: &str = r#"
version: 1
hash_secret: only-for-this-description
client_ip: { trusted_proxies: ["127.0.0.0/8"] }
tiers:
  free: { capacity: 3, refill_rate: 1/s }
  pro: { capacity: 50, refill_rate: 10/s }
limits:
  - name: everyone
    key: []
    algorithm: token_bucket
    capacity: 40
    refill_rate: 40/s
    cost: { by: pages, default: 1 }
  - name: plan
    key: ["header:x-api-key | client_ip"]
    optional: true
    algorithm: token_bucket
    tier: { by: tier, default: free }
  - name: login-address
    match: { path: /auth/login }
    key: [client_ip]
    algorithm: sliding_log
    limit: 50
    window: 15m
  - name: login-account
    match: { path: /auth/login }
    key: [email]
    algorithm: sliding_log
    limit: 5
    window: 15m
  - { name: in-flight, key: [tenant], optional: true, algorithm: concurrency, limit: 2, permit_timeout: 1s }
  - { name: export, match: { path: "/export/**" }, key: [], algorithm: leaky_bucket, mode: queue, capacity: 5, leak_rate: 10/s }
"#;

/// A description cannot know which limits exist and which attributes they need.
const DECISIONS: &str = r#"
[checks]
positive_data_acceptance.expected-statuses = ["2xx", 422, 429]
"#;

/// Nor which of its headers a proxy must send.
const FORWARD_AUTH: &str = r#"
[checks]
positive_data_acceptance.expected-statuses = ["2xx", "4xx"]
"#;

#[test]
fn decisions_are_as_described() {
    let answers = run(
        DECISIONS,
        &[
            "--exclude-path-regex",
            "forward-auth",
            "--max-examples",
            "50",
        ],
    );
    for path in ["/v1/check", "/v1/peek"] {
        for status in [200, 405, 422, 429] {
            assert!(
                answers.contains_key(&(path.to_owned(), status)),
                "{path} never answered {status}: {answers:?}"
            );
        }
    }
    assert!(
        answers.contains_key(&("/v1/release".to_owned(), 200)),
        "{answers:?}"
    );
}

/// Forward-auth accepts every method, even those that a description cannot have.
#[test]
fn forward_auth_is_as_described() {
    let arguments = [
        "--include-path-regex",
        "forward-auth",
        "--max-examples",
        "10",
    ];
    let answers = run(
        FORWARD_AUTH,
        &[&arguments[..], &["--exclude-checks", "unsupported_method"]].concat(),
    );
    for status in [200, 400, 403] {
        assert!(
            answers.contains_key(&("/v1/forward-auth".to_owned(), status)),
            "{status}: {answers:?}"
        );
    }
}

/// Runs every check. Returns the number of responses by path and status.
fn run(config: &str, arguments: &[&str]) -> BTreeMap<(String, u64), u64> {
    let service = Tollgate::with_config(LIMITS);
    let config = write_config(config);
    let directory = config.parent().expect("a directory of its own");
    let (toml, report) = (
        directory.join("schemathesis.toml"),
        directory.join("report.har"),
    );
    std::fs::rename(&config, &toml).expect("a writable directory");
    let mut command = Command::new(find_python_tools());
    command
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(&toml)
        .arg("run");
    command
        .arg(format!("http://{}/openapi.json", service.http))
        .args(["--checks", "all", "--seed", "1"]);
    command.args([
        "--continue-on-failure",
        "--request-timeout",
        "10",
        "--no-color",
        "--generation-database",
        "none",
    ]);
    command
        .args(["--report", "har", "--report-har-path"])
        .arg(&report);
    let output = command
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("python runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{}", service.log());
    let answers = answers(&report);
    std::fs::remove_dir_all(directory).expect("it is ours");
    answers
}

fn answers(report: &Path) -> BTreeMap<(String, u64), u64> {
    let report = std::fs::read(report).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let mut answers = BTreeMap::new();
    for entry in report["log"]["entries"].as_array().expect("a list") {
        let url = entry["request"]["url"].as_str().expect("a text");
        let path = url
            .split(['?', '#'])
            .next()
            .and_then(|url| url.splitn(4, '/').nth(3))
            .expect("a path");
        let status = entry["response"]["status"].as_u64().expect("a number");
        *answers.entry((format!("/{path}"), status)).or_default() += 1;
    }
    answers
}

/// The configuration above accepts every example request of the description.
#[test]
fn the_example_requests_are_valid() {
    let service = Tollgate::with_config(LIMITS);
    let description: Value =
        serde_json::from_slice(&reverse_proxy::get(service.http, "/openapi.json", &[]).body)
            .expect("JSON");
    for path in [
        "/v1/check",
        "/v1/peek",
        "/v1/refund",
        "/v1/release",
        "/v1/reserve",
        "/v1/settle",
        "/v1/cancel",
        "/v1/reset",
        "/v1/limits",
        "/v1/batch",
    ] {
        let content =
            &description["paths"][path]["post"]["requestBody"]["content"]["application/json"];
        for (name, example) in content["examples"].as_object().expect("examples") {
            let answer = service.post(path, &example["value"].to_string());
            assert_eq!(answer.status, 200, "{path} {name}: {}", answer.text());
            assert!(!answer.text().contains("about:blank"), "{}", answer.text());
        }
    }
}
