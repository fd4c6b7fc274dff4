//! Limits, status, alerts and health.

use testkit::servers::{Flavor, Server};
use testkit::wait;

use super::{CONFIG, check, get, json};
use crate::harness::{PATIENCE, Tollgate};

const HOUR_MS: u64 = 3_600_000;

#[test]
fn the_first_page_lists_the_paths() {
    let service = Tollgate::start();
    let page = get(&service, "/");
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, Some("text/html; charset=utf-8"))
    );
    assert!(
        page.header("content-security-policy")
            .is_some_and(|policy| policy.contains("default-src 'none'"))
    );
    for path in [
        "/admin/status",
        "/admin/limits",
        "/admin/keys",
        "/admin/reload",
        "/metrics",
        "/healthz",
        "/readyz",
    ] {
        assert!(page.text().contains(path), "{path}");
    }
    assert_eq!(get(&service, "/healthz").text(), r#"{"alive":true}"#);
    assert_eq!(
        get(&service, "/readyz").text(),
        r#"{"ready":true,"degraded":false}"#
    );
}

#[test]
fn limits_are_listed_as_in_the_file() {
    let service = Tollgate::with_config(CONFIG);
    let ann = r#"{"client_ip": "203.0.113.7", "email": "ann@example.com"}"#;
    (0..5).for_each(|_| drop(check(&service, "login", ann)));
    (0..7).for_each(|_| assert_eq!(check(&service, "quota", r#"{"tenant": "a"}"#).status, 200));
    let answer = get(&service, "/admin/limits");
    assert_eq!(
        (
            answer.header("content-type"),
            answer.header("cache-control")
        ),
        (Some("application/json"), Some("no-store"))
    );
    let bucket = |name: &str, limit: u64| {
        serde_json::json!({"name": name, "algorithm": "token_bucket", "limit": limit,
            "window_ms": limit * HOUR_MS,
            "refill": {"units": 1, "every_us": HOUR_MS * 1_000}})
    };
    let expected = serde_json::json!({"limits": [
        {"name": "login", "algorithm": "sliding_log", "limit": 3, "window_ms": 900_000,
         "key": ["client_ip", "email"],
         "match": [{"attribute": "method", "any_of": ["POST"]},
                   {"attribute": "path", "any_of": ["/auth/**"]}],
         "consistency": "strict", "on_store_failure": "deny", "shadow": false, "optional": false,
         "outcomes": {"allowed": 3, "denied": 2, "shadow_denied": 0}},
        {"name": "plan", "algorithm": "token_bucket", "limit": 10, "window_ms": 10 * HOUR_MS,
         "refill": {"units": 1, "every_us": HOUR_MS * 1_000},
         "key": ["header:x-api-key | client_ip"], "match": [],
         "consistency": "strict", "on_store_failure": "allow", "shadow": false, "optional": false,
         "tiers": {"by": "tier", "default": "free",
                   "tiers": [bucket("free", 10), bucket("pro", 100)]},
         "outcomes": {"allowed": 0, "denied": 0, "shadow_denied": 0}},
        {"name": "quota", "algorithm": "fixed_window", "limit": 5, "window_ms": 86_400_000,
         "calendar": "day", "key": ["tenant"], "match": [], "consistency": "strict",
         "on_store_failure": "allow",
         "shadow": true, "optional": true, "outcomes": {"allowed": 5, "denied": 0, "shadow_denied": 2}},
        {"name": "jobs", "algorithm": "concurrency", "limit": 2, "permit_timeout_ms": 30_000,
         "key": ["tenant"], "match": [], "consistency": "local",
         "on_store_failure": "allow", "shadow": false, "optional": true,
         "outcomes": {"allowed": 0, "denied": 0, "shadow_denied": 0}},
    ]});
    assert_eq!(json(&answer), expected);
}

#[test]
fn the_status_describes_the_service() {
    let service = Tollgate::with_config(CONFIG);
    assert_eq!(check(&service, "quota", r#"{"tenant": "a"}"#).status, 200);
    assert_eq!(check(&service, "jobs", r#"{"tenant": "a"}"#).status, 200);
    let status = json(&get(&service, "/admin/status"));
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        status["uptime_ms"].is_u64()
            && status["connections"].is_u64()
            && status["in_flight"].is_u64()
    );
    assert_eq!(
        (&status["ready"], &status["shed"], &status["keys"]),
        (&true.into(), &0.into(), &2.into())
    );
    let store = &status["store"];
    assert_eq!(
        (&store["kind"], &store["up"], &store["degraded"]),
        (&"memory".into(), &true.into(), &false.into())
    );
    assert_eq!(
        store["errors"],
        serde_json::json!({
            "store_timeout": 0, "unavailable": 0, "overload": 0, "refused": 0,
            "bound": 0, "malformed": 0, "script": 0,
        })
    );
    let config = &status["config"];
    assert_eq!(config["file"].as_str(), service.config_path().to_str());
    assert_eq!(
        (&config["limits"], &config["reloads"], &config["failed"]),
        (&4.into(), &0.into(), &0.into())
    );
    assert!(config["loaded_at_ms"].as_u64() > Some(1_600_000_000_000) && config["error"].is_null());
    assert_eq!(status["alerts"], serde_json::json!([]));
}

#[test]
fn the_status_reports_an_unavailable_store() {
    let gone = Server::start(Flavor::Redis);
    gone.kill();
    let password = "do-not-show-this";
    let config = format!(
        "store: {{ type: redis, endpoints: [\"redis://:{password}@{}\"], timeout: 50ms }}\n{}",
        gone.addr(),
        CONFIG.trim_start()
    );
    let service = Tollgate::with_config(&config);
    let status = wait::until(PATIENCE, "the outage to be noticed", || {
        let status = get(&service, "/admin/status");
        assert!(!status.text().contains(password), "{}", status.text());
        Some(json(&status)).filter(|status| status["store"]["degraded"] == true)
    });
    let store = &status["store"];
    assert_eq!(
        (&store["kind"], &store["up"]),
        (&"redis".into(), &false.into())
    );
    assert!(
        store["degraded_since_ms"].is_u64() && store["errors"]["unavailable"].as_u64() > Some(0),
        "{store}"
    );
    assert_eq!(
        get(&service, "/readyz").text(),
        r#"{"ready":true,"degraded":true}"#
    );
}

#[test]
fn an_alert_is_logged_once_and_reported() {
    let config = "
monitoring: { metrics_prefix: mine, alerts: { deny_ratio: 0.5, latency_p99: 60s } }
limits:
  - { name: narrow, key: [tenant], algorithm: sliding_log, limit: 1, window: 1h }
  - { name: wide, key: [tenant], algorithm: sliding_log, limit: 1000, window: 1h }
";
    let service = Tollgate::with_config(config);
    (0..30).for_each(|_| drop(check(&service, "narrow", r#"{"tenant": "a"}"#)));
    (0..30).for_each(|_| assert_eq!(check(&service, "wide", r#"{"tenant": "a"}"#).status, 200));
    let alerts = wait::until(PATIENCE, "the alert to fire", || {
        let alerts = json(&get(&service, "/admin/status"))["alerts"].clone();
        alerts
            .as_array()
            .is_some_and(|alerts| !alerts.is_empty())
            .then_some(alerts)
    });
    assert_eq!(alerts.as_array().map(Vec::len), Some(1), "{alerts}");
    assert_eq!(
        (&alerts[0]["alert"], &alerts[0]["limit"]),
        (&"deny_ratio".into(), &"narrow".into())
    );
    assert_eq!(alerts[0]["threshold"], 0.5);
    assert!(
        alerts[0]["value"].as_f64() >= Some(0.5) && alerts[0]["since_ms"].is_u64(),
        "{alerts}"
    );
    let line = |text: &str| {
        get(&service, "/metrics")
            .text()
            .lines()
            .any(|line| line == text)
    };
    assert!(line(
        r#"mine_alert_firing{alert="deny_ratio",limit="narrow"} 1"#
    ));
    let quiet = r#"mine_alert_firing{alert="deny_ratio",limit="wide"} 0"#;
    wait::until_true(PATIENCE, "the other limit to be watched", || line(quiet));
    assert!(line(r#"mine_alert_firing{alert="latency_p99",limit=""} 0"#));
    service.wait_for_log(r#""alert":"deny_ratio""#);
    let log = service.log();
    let warnings: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("WARN") && line.contains(r#""alert":"deny_ratio""#))
        .collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(warnings[0].contains(r#""limit":"narrow""#), "{log}");
}
