//! The files for Prometheus and Grafana: valid for Prometheus' own tool, and about metrics that
//! exist.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::reverse_proxy::{self, find_program};
use testkit::wait;

use crate::deploy::{path, read};
use crate::deployments::yaml;
use crate::harness::{PATIENCE, Tollgate, write_config};

/// Labels that Prometheus adds to every series.
const OF_PROMETHEUS: [&str; 2] = ["job", "instance"];

fn promtool(arguments: &[&str], file: &Path) {
    let output = Command::new(find_program("TOLLGATE_PROMTOOL", "promtool"))
        .args(arguments)
        .arg(file)
        .output();
    let output = output.expect("the program starts");
    let said = [output.stdout, output.stderr]
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat();
    assert!(output.status.success(), "{}: {said}", file.display());
}

/// The names and labels of all metrics, from a service that has every kind of metric.
fn known() -> (BTreeSet<String>, BTreeSet<String>) {
    let limits = "monitoring: { alerts: { deny_ratio: 0.5, latency_p99: 1s, near_limit: 1h, \
                  webhook: { url: 'http://127.0.0.1:1/', secret: 0123456789abcdef } } }\n\
                  limits: [{ name: a, key: [tenant], algorithm: sliding_log, limit: 1, window: 1h, \
                  lockout: { after: 2, within: 1h, for: 1h } }]";
    let service = Tollgate::with_config(limits);
    (0..3).for_each(|_| drop(service.check(r#"{"attributes": {"tenant": "a"}}"#)));
    drop(service.check(r#"{"attributes": {}}"#));
    let page = wait::until(PATIENCE, "an alert to be watched", || {
        let page = reverse_proxy::get(service.admin, "/metrics", &[]).text();
        let has_all = page.contains("alert=\"deny_ratio\"") && page.contains("percent=\"100\"");
        has_all.then_some(page)
    });
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let series: Vec<&str> = lines
        .map(|line| line.rsplit_once(' ').expect("a value").0)
        .collect();
    let names = series
        .iter()
        .map(|series| series.split('{').next().unwrap_or_default().to_owned());
    let labels = series.iter().flat_map(|series| labels_in(series));
    (
        names.collect(),
        labels.chain(OF_PROMETHEUS.map(str::to_owned)).collect(),
    )
}

/// The names of metrics in an expression.
fn names_in(expression: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    expression
        .split(|c| !is_word(c))
        .filter(|word| word.starts_with("tollgate_"))
        .collect()
}

/// The names of labels in an expression: before a comparison inside braces, and in a `by`.
fn labels_in(expression: &str) -> Vec<String> {
    let braced = expression
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split('}').next());
    let compared = braced
        .flat_map(|inside| inside.split(','))
        .filter_map(|part| part.split(['=', '!']).next());
    let grouped = expression
        .split("by (")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let grouped = grouped.flat_map(|inside| inside.split(','));
    compared
        .chain(grouped)
        .map(|label| label.trim().to_owned())
        .filter(|label| !label.is_empty())
        .collect()
}

/// Expects that every expression uses only existing metrics and labels.
fn expect_known(expressions: &[String]) {
    let (names, labels) = known();
    for expression in expressions {
        for name in names_in(expression) {
            assert!(
                names.contains(name),
                "no metric is called {name}: {expression}"
            );
        }
        for label in labels_in(expression) {
            assert!(
                labels.contains(&label),
                "no label is called {label}: {expression}"
            );
        }
    }
}

/// The expression with Grafana's variables filled in.
fn filled(expression: &str) -> String {
    expression
        .replace("$__rate_interval", "5m")
        .replace("$job", "tollgate")
        .replace("$instance", ".*")
        .replace("$limit", ".*")
}

#[test]
fn the_alert_rules_fire_and_use_existing_metrics() {
    promtool(&["check", "config"], &path("prometheus/prometheus.yml"));
    promtool(
        &["check", "rules", "--lint=all", "--lint-fatal"],
        &path("prometheus/tollgate.rules.yml"),
    );
    promtool(&["test", "rules"], &path("prometheus/tollgate.test.yml"));
    let [rules] = &yaml("prometheus/tollgate.rules.yml")[..] else {
        panic!("one document")
    };
    let rules = rules["groups"][0]["rules"].as_array().expect("a list");
    let text = |rule: &Value, name: &str| rule[name].as_str().expect("a text").to_owned();
    let tests = read("prometheus/tollgate.test.yml");
    for alert in rules.iter().map(|rule| text(rule, "alert")) {
        let is_quiet = tests.contains(&format!("alertname: {alert} }}"));
        let fires = tests.contains(&format!("alertname: {alert}\n        exp_alerts:"));
        assert!(
            is_quiet && fires,
            "{alert} is not tested both firing and not firing"
        );
    }
    expect_known(
        &rules
            .iter()
            .map(|rule| text(rule, "expr"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn the_grafana_dashboard_has_valid_expressions_with_existing_metrics() {
    let dashboard: Value = serde_json::from_str(&read("grafana/tollgate.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("a list");
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    let mut expressions = Vec::new();
    for panel in panels {
        assert!(
            ids.insert(panel["id"].as_u64()),
            "two panels have the id {}",
            panel["id"]
        );
        let place = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        assert!(
            place("x") + place("w") <= 24,
            "{} is too wide",
            panel["title"]
        );
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(cells.insert((x, y)), "{} lies over another", panel["title"]);
            }
        }
        let targets = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(
            targets.is_empty(),
            panel["type"] == "row",
            "{}",
            panel["title"]
        );
        for target in targets {
            assert_eq!(
                target["datasource"]["uid"], "${datasource}",
                "{}",
                panel["title"]
            );
            expressions.push(target["expr"].as_str().expect("an expression").to_owned());
        }
    }
    let annotations = dashboard["annotations"]["list"].as_array().expect("a list");
    expressions.extend(
        annotations
            .iter()
            .filter_map(|one| one["expr"].as_str().map(str::to_owned)),
    );
    let variables = dashboard["templating"]["list"].as_array().expect("a list");
    for variable in variables
        .iter()
        .filter_map(|variable| variable["definition"].as_str())
    {
        let (asked, label) = variable
            .trim_start_matches("label_values(")
            .trim_end_matches(')')
            .rsplit_once(", ")
            .expect("a label");
        expressions.push(format!("count by ({label}) ({asked})"));
    }
    assert!(expressions.len() > 15, "{expressions:?}");
    expect_known(&expressions);

    let rules = expressions.iter().enumerate().map(|(number, expression)| {
        serde_json::json!({ "record": format!("panel:{number}"), "expr": filled(expression) })
    });
    let file =
        serde_json::json!({ "groups": [{ "name": "panels", "rules": rules.collect::<Vec<_>>() }] });
    // JSON is valid YAML.
    let written = write_config(&file.to_string());
    promtool(&["check", "rules", "--lint=none"], &written);
    std::fs::remove_dir_all(written.parent().expect("a directory of its own")).expect("it is ours");
}

/// Proxies count what passes unchecked in series that begin with the first such request.
#[test]
fn the_alerts_about_proxies_fire_on_the_first_sample() {
    let docs = std::fs::read_to_string(path("../docs/proxies.md")).expect("the page");
    let rules = docs
        .split("```yaml\n")
        .find(|block| block.contains("RequestsPassUnchecked"));
    let rules = rules
        .and_then(|block| block.split("```").next())
        .expect("the rules");
    let rules_file = write_config(rules);
    promtool(
        &["check", "rules", "--lint=all", "--lint-fatal"],
        &rules_file,
    );

    let alerts = [
        (
            "RequestsPassUnchecked",
            "envoy_cluster_ratelimit_failure_mode_allowed",
            "",
        ),
        (
            "RequestsPassUnchecked",
            "envoy_http_ext_authz_failure_mode_allowed",
            "",
        ),
        (
            "RequestsDeniedWithoutDecision",
            "caddy_http_request_duration_seconds_count",
            "code: '502'",
        ),
        (
            "RequestsDeniedWithoutDecision",
            "traefik_router_requests_total",
            "code: '500', router: app@file",
        ),
    ];
    let tests = alerts.map(|(alert, series, labels)| {
        let matcher = labels
            .replace("code: ", "code=")
            .replace("router: app@file", "router='app@file'");
        let quiet = |time| format!("      - {{ eval_time: {time}, alertname: {alert} }}\n");
        let fires = |time| {
            let alerts = format!("[{{ exp_labels: {{ {labels} }} }}]");
            format!("      - {{ eval_time: {time}, alertname: {alert}, exp_alerts: {alerts} }}\n")
        };
        // The first outage after 3 minutes, another one after 30.
        format!(
            "  - interval: 1m\n    input_series: [{{ series: \"{series}{{{matcher}}}\", \
             values: '_x3 7x26 9x20' }}]\n    alert_rule_test:\n{}{}{}{}{}",
            quiet("2m"),
            fires("3m"),
            quiet("20m"),
            fires("31m"),
            quiet("45m")
        )
    });
    let file = rules_file.display();
    let text = format!("rule_files: ['{file}']\ntests:\n{}", tests.concat());
    let tests_file = write_config(&text);
    promtool(&["test", "rules"], &tests_file);
    for file in [rules_file, tests_file] {
        std::fs::remove_dir_all(file.parent().expect("a directory of its own"))
            .expect("it is ours");
    }
}
