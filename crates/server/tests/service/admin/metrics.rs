//! `/metrics`: valid according to promtool, bounded, and without client data.

use std::io::Write as _;
use std::process::{Command, Stdio};

use testkit::reverse_proxy::find_program;
use testkit::servers::{Flavor, Server};
use testkit::wait;

use super::{CONFIG, check, get, json, send};
use crate::harness::{PATIENCE, Tollgate};

/// The output of `promtool check metrics` for a page.
fn lint(page: &str) -> String {
    let mut tool = Command::new(find_program("TOLLGATE_PROMTOOL", "promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    tool.stdin
        .take()
        .expect("it is piped")
        .write_all(page.as_bytes())
        .expect("it reads");
    let output = tool.wait_with_output().expect("it ends");
    let printed = [output.stdout, output.stderr]
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat();
    assert!(output.status.success(), "{printed}\n{page}");
    printed
}

/// The value of a series, by its name and labels.
fn value(page: &str, series: &str) -> Option<f64> {
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    line.parse().ok()
}

fn series(page: &str) -> usize {
    page.lines().filter(|line| !line.starts_with('#')).count()
}

/// What the page has at least, after an outage and two reloads.
const LEAST: [(&str, f64); 18] = [
    (
        r#"tollgate_decisions_total{limit="a",outcome="allowed",source="store"}"#,
        1.0,
    ),
    (
        r#"tollgate_decisions_total{limit="a",outcome="denied",source="store"}"#,
        2.0,
    ),
    (
        r#"tollgate_decisions_total{limit="a",outcome="allowed",source="fallback"}"#,
        1.0,
    ),
    (
        r#"tollgate_decisions_total{limit="c",outcome="allowed",source="local"}"#,
        1.0,
    ),
    ("tollgate_decision_duration_seconds_count", 4.0),
    (
        r#"tollgate_decision_duration_seconds_bucket{le="+Inf"}"#,
        4.0,
    ),
    ("tollgate_degraded_seconds_total", 0.001),
    ("tollgate_keys", 1.0),
    (r#"tollgate_config_reloads_total{result="applied"}"#, 1.0),
    (r#"tollgate_config_reloads_total{result="failed"}"#, 1.0),
    ("tollgate_config_last_reload_timestamp_seconds", 1.6e9),
    ("tollgate_connections", 0.0),
    ("tollgate_in_flight_requests", 0.0),
    ("tollgate_shed_total", 0.0),
    ("tollgate_evicted_connections_total", 0.0),
    (
        r#"tollgate_alert_firing{alert="latency_p99",limit=""}"#,
        0.0,
    ),
    (
        concat!(
            "tollgate_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"}"
        ),
        1.0,
    ),
    (r#"tollgate_store_errors_total{kind="unavailable"}"#, 1.0),
];

#[test]
fn promtool_accepts_the_page_after_an_outage_and_a_reload() {
    let server = Server::start(Flavor::Redis);
    let limits = "
monitoring: { alerts: { deny_ratio: 0.5, latency_p99: 1s } }
limits:
  - { name: a, key: [tenant], algorithm: sliding_log, limit: 1, window: 1h }
  - { name: b, key: [tenant], algorithm: sliding_log, limit: 1, window: 1h, shadow: true }
  - { name: c, key: [tenant], algorithm: sliding_log, limit: 5, window: 1h, consistency: local }
";
    let config = format!(
        "store: {{ type: redis, endpoints: [\"{}\"], timeout: 2s }}{limits}",
        server.url()
    );
    let service = Tollgate::with_config(&config);
    have_an_outage(&service, &server);

    service.rewrite_config("limits: wrong");
    assert_eq!(send(&service, "POST", "/admin/reload").status, 422);
    service.rewrite_config(&config);
    assert_eq!(send(&service, "POST", "/admin/reload").status, 200);

    let answer = get(&service, "/metrics");
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4")
    );
    let page = answer.text();
    assert_eq!(lint(&page), "");
    for (name, least) in LEAST {
        assert!(
            value(&page, name).is_some_and(|value| value >= least),
            "{name} is not {least} or more in\n{page}"
        );
    }
    assert_eq!(value(&page, "tollgate_config_reload_failed"), Some(0.0));
}

/// Sends requests before an outage of the store and during it, and waits for its end.
fn have_an_outage(service: &Tollgate, server: &Server) {
    let page = || get(service, "/metrics").text();
    let until = |what: &str, name: &str, expected: f64| {
        wait::until_true(PATIENCE, what, || value(&page(), name) == Some(expected));
    };
    until("the store to be up", "tollgate_store_up", 1.0);
    until("normal service", "tollgate_degraded", 0.0);
    let everything = r#"{"attributes": {"tenant": "a"}}"#;
    (0..3).for_each(|_| drop(service.check(everything)));

    server.kill();
    until("the outage to be noticed", "tollgate_degraded", 1.0);
    assert_eq!(service.check(everything).status, 200, "by policy");
    assert_eq!(value(&page(), "tollgate_store_up"), Some(0.0));
    assert_eq!(lint(&page()), "");
    server.restart();
    until("the outage to be over", "tollgate_degraded", 0.0);
}

/// Enough clients that a label made of a key would be noticed.
const CLIENTS: usize = 10_000;

#[test]
fn neither_clients_nor_removed_limits_create_series() {
    let config = |name: &str| {
        format!(
            "
monitoring: {{ alerts: {{ deny_ratio: 0.9 }} }}
hash_keys: [\"header:x-api-key\"]
hash_secret: hash-secret-not-to-be-shown
limits:
  - {{ name: {name}, key: [\"header:x-api-key\", tenant],
      algorithm: sliding_window, limit: 5, window: 1h }}
"
        )
    };
    let service = Tollgate::with_config(&config("first"));
    let spend = |service: &Tollgate, client: usize| {
        let attributes =
            format!(r#"{{"header:x-api-key": "sk-{client}-x", "tenant": "tenant-{client}-x"}}"#);
        assert_eq!(
            service
                .check(&format!(r#"{{"attributes": {attributes}}}"#))
                .status,
            200
        );
    };
    spend(&service, 0);
    let firing = r#"tollgate_alert_firing{alert="deny_ratio",limit="first"}"#;
    wait::until_true(PATIENCE, "the alert to be watched", || {
        value(&get(&service, "/metrics").text(), firing).is_some()
    });
    let before = series(&get(&service, "/metrics").text());
    (0..CLIENTS).for_each(|client| spend(&service, client));
    let page = get(&service, "/metrics").text();
    assert_eq!(series(&page), before, "{page}");
    assert_eq!(value(&page, "tollgate_keys"), Some(10_000.0));
    for shown in ["sk-", "tenant", "hash-secret", "x-api-key"] {
        assert!(!page.contains(shown), "{shown}: {page}");
    }

    for round in 0..20 {
        service.rewrite_config(&config(&format!("name-{round}")));
        assert_eq!(send(&service, "POST", "/admin/reload").status, 200);
        spend(&service, round);
    }
    let last = r#"tollgate_alert_firing{alert="deny_ratio",limit="name-19"}"#;
    let page = wait::until(PATIENCE, "the last limit to be watched", || {
        let page = get(&service, "/metrics").text();
        value(&page, last).map(|_| page)
    });
    assert_eq!(series(&page), before, "{page}");
    assert!(
        !page.contains("first") && !page.contains("name-1\""),
        "{page}"
    );
}

/// Keys of a cheap limit fill the store, and the login limit of a client is not forgotten.
#[test]
fn evictions_are_counted_by_limit_and_do_not_reset_other_limits() {
    let service = Tollgate::with_config(
        "
store: { type: memory, keys_max: 100 }
limits:
  - { name: login, key: [user], algorithm: fixed_window, limit: 5, window: 1h }
  - { name: search, key: [user], algorithm: fixed_window, limit: 1, window: 1h }
",
    );
    let spend = |limit: &str, user: &str, cost: u64| {
        let attributes = format!(r#"{{"user": "{user}"}}"#);
        let body =
            format!(r#"{{"limits": ["{limit}"], "cost": {cost}, "attributes": {attributes}}}"#);
        service.check(&body).status
    };
    assert_eq!(spend("login", "ann", 5), 200);
    let series = r#"tollgate_evictions_total{limit="search",limited="true"}"#;
    assert_eq!(value(&get(&service, "/metrics").text(), series), Some(0.0));

    for user in 0..300 {
        assert_eq!(spend("search", &format!("user-{user}"), 1), 200);
    }

    assert_eq!(spend("login", "ann", 1), 429);
    let page = get(&service, "/metrics").text();
    assert!(value(&page, series) >= Some(200.0), "{page}");
    let login = r#"tollgate_evictions_total{limit="login",limited="true"}"#;
    assert_eq!(value(&page, login), Some(0.0));
    assert_eq!(lint(&page), "");
}

#[test]
fn overrides_are_listed_only_once_used() {
    let service = Tollgate::with_config(CONFIG);
    assert_eq!(check(&service, "quota", r#"{"tenant": "a"}"#).status, 200);
    let page = get(&service, "/metrics").text();
    assert!(!page.contains("override:"), "{page}");
    assert_eq!(
        value(
            &page,
            r#"tollgate_decisions_total{limit="jobs",outcome="allowed",source="store"}"#
        ),
        Some(0.0)
    );
    let limits = json(&get(&service, "/admin/limits"));
    assert_eq!(
        value(&page, "tollgate_limits"),
        limits["limits"]
            .as_array()
            .map(|limits| f64::from(u32::try_from(limits.len()).unwrap()))
    );
}
