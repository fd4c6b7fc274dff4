//! Which limits are reported as exceeded, and which are not.

use serde_json::Value;
use testkit::servers::{Flavor, Server};
use testkit::wait;

use super::{A_SECOND, AN_HOUR, limits, load, report};
use crate::harness::{PATIENCE, Tollgate};

fn local(count: usize) -> Vec<Tollgate> {
    (0..count)
        .map(|_| Tollgate::with_config(&limits(&AN_HOUR, "local")))
        .collect()
}

fn config(replica: &Tollgate) -> String {
    replica.config_path().display().to_string()
}

/// With local limits, two replicas together admit twice the limit, whatever the algorithm.
#[test]
fn two_local_replicas_exceed_every_limit() {
    let replicas = local(2);
    let config = config(&replicas[0]);
    for (name, _) in AN_HOUR {
        let arguments = ["--limit", name, "-a", "user={key}", "--config", &config];
        let (code, report) = report(
            &replicas,
            &[&arguments[..], &["--rate", "300", "--duration", "500ms"]].concat(),
        );
        let limit = &report["limits"][0];
        assert_eq!(
            (code, &report["requests"]["allowed"]),
            (1, &40.into()),
            "{name}: {report}"
        );
        assert_eq!(
            (&limit["name"], &limit["judged_by"]),
            (&name.into(), &"configuration".into())
        );
        assert_eq!(
            (&limit["exceeded"], &limit["worst"]["admitted"]),
            (&true.into(), &40.into()),
            "{limit}"
        );
        let over = limit["worst"]["over"].as_f64().unwrap();
        assert!((19.0..=20.0).contains(&over), "{limit}");
        assert_eq!(limit["worst"]["key"], "user=key-0");
        assert!(
            limit["worst"]["from_s"].as_f64() < limit["worst"]["to_s"].as_f64(),
            "{limit}"
        );
    }
    let (code, out, _) = load(
        &replicas,
        &[
            "--limit",
            "log",
            "-a",
            "user=other",
            "-r",
            "200",
            "-d",
            "500ms",
            "-c",
            &config,
        ],
    );
    assert!(
        code == 1 && out.contains("log  EXCEEDED by 20: 40 admitted from 0."),
        "{out}"
    );
}

/// Without the configuration limits are judged loosely, but three times the limit is still found.
#[test]
fn limits_are_judged_by_responses_or_allowances() {
    let replicas = local(3);
    let arguments = ["--limit", "sliding", "--rate", "300", "--duration", "500ms"];
    let ask = |more: &[&str]| report(&replicas, &[&arguments[..], more].concat());
    let (code, report) = ask(&["-a", "user=a"]);
    let limit = &report["limits"][0];
    assert_eq!(
        (code, &limit["judged_by"], &limit["exceeded"]),
        (1, &"responses".into(), &true.into()),
        "{report}"
    );
    let (code, report) = ask(&[
        "-a",
        "user=b",
        "--allow",
        "sliding=59/1h",
        "--allow",
        "1000/1h",
    ]);
    let limit = &report["limits"][0];
    assert_eq!(
        (code, &limit["judged_by"], &limit["worst"]["over"]),
        (1, &"allow".into(), &1.0.into()),
        "{report}"
    );
    let (code, report) = ask(&["-a", "user=c", "--allow", "other=1/1h", "--allow", "60+1/h"]);
    assert_eq!(
        (code, &report["limits"][0]["exceeded"]),
        (0, &false.into()),
        "{report}"
    );
}

/// Limits that are at their bound for the whole time, on a real store.
#[test]
fn strict_and_leased_replicas_never_exceed() {
    let server = Server::start(Flavor::Redis);
    let url = server.url();
    let store = format!(
        "store: {{type: redis, endpoints: ['{url}'], timeout: 5s}}\ndefaults: {{on_store_failure: deny}}\n"
    );
    for consistency in ["strict", "leased"] {
        let yaml = store.clone() + &limits(&A_SECOND, consistency);
        let replicas = [0, 1].map(|_| Tollgate::with_config(&yaml));
        wait::until_true(PATIENCE, "the store", || {
            let look = r#"{"attributes": {"user": "nobody"}, "limits": ["log"], "cost": 0}"#;
            replicas
                .iter()
                .all(|replica| replica.post("/v1/peek", look).status == 200)
        });
        let config = config(&replicas[0]);
        for (name, _) in A_SECOND {
            let arguments = [
                "--limit",
                name,
                "-a",
                "user={key}",
                "--config",
                &config,
                "--retry-for",
                "300ms",
            ];
            let (code, report) = report(
                &replicas,
                &[&arguments[..], &["--rate", "500", "--duration", "1s"]].concat(),
            );
            let (limit, requests) = (&report["limits"][0], &report["requests"]);
            assert_eq!(
                (code, &limit["exceeded"], &limit["not_judged"]),
                (0, &false.into(), &Value::Null),
                "{report}"
            );
            assert_eq!(limit["judged_by"], "configuration");
            assert!(
                requests["denied"].as_u64() > Some(0) && requests["allowed"].as_u64() >= Some(20),
                "{report}"
            );
            assert_eq!(
                (&requests["errors"], &requests["degraded"]),
                (&0.into(), &0.into()),
                "{report}"
            );
        }
        server.command(&["FLUSHALL"]);
    }
}

/// Thousands of addresses try one account, and the limit counts by account.
#[test]
fn credential_stuffing_is_one_account_from_many_addresses() {
    let service = [Tollgate::with_config(
        "limits:\n\
         - {name: login, match: {path: /never}, key: [email], algorithm: sliding_log, limit: 5, window: 1h}\n\
         - {name: address, match: {path: /never}, key: [client_ip], algorithm: sliding_log, limit: 5, window: 1h}\n",
    )];
    let config = config(&service[0]);
    let shape = [
        "--shape",
        "credential-stuffing",
        "-a",
        "email={key}",
        "-a",
        "client_ip={ip}",
        "-r",
        "300",
        "-d",
        "1s",
    ];
    let attack = |limit| {
        report(
            &service,
            &[&shape[..], &["--limit", limit, "--config", &config]].concat(),
        )
    };
    let (code, report) = attack("login");
    assert_eq!(
        (
            code,
            &report["requests"]["allowed"],
            &report["limits"][0]["keys"]
        ),
        (0, &5.into(), &1.into()),
        "{report}"
    );
    let (code, report) = attack("address");
    assert_eq!(
        (code, &report["requests"]["denied"]),
        (0, &0.into()),
        "{report}"
    );
    assert!(report["limits"][0]["keys"].as_u64() > Some(250), "{report}");
}

/// Requests admitted by a failure policy are counted, but not judged.
#[test]
fn admissions_by_a_failure_policy_are_not_judged() {
    let service = [Tollgate::with_config(
        "store: { type: redis, endpoints: [\"redis://127.0.0.1:1\"] }\n\
         limits: [{ name: api, key: [], algorithm: sliding_log, limit: 5, window: 1h, on_store_failure: allow }]\n",
    )];
    let config = config(&service[0]);
    let (code, report) = report(
        &service,
        &["--rate", "100", "--duration", "500ms", "--config", &config],
    );
    let limit = &report["limits"][0];
    assert_eq!(
        (code, &report["requests"]["degraded"]),
        (1, &50.into()),
        "{report}"
    );
    assert_eq!(
        (&limit["admitted_by_policy"], &limit["exceeded"]),
        (&50.into(), &false.into())
    );
    assert_eq!(report["failures"], serde_json::json!(["degraded"]));
}

/// A configuration that differs from that of the replicas judges nothing.
#[test]
fn a_different_configuration_is_detected() {
    let service = [Tollgate::with_config(
        "limits: [{name: api, key: [], algorithm: sliding_log, limit: 9, window: 1h}]",
    )];
    let other = Tollgate::with_config(
        "limits: [{name: api, key: [], algorithm: sliding_log, limit: 5, window: 1h}]",
    );
    let (code, report) = report(
        &service,
        &[
            "--rate",
            "100",
            "--duration",
            "200ms",
            "--config",
            &config(&other),
        ],
    );
    let limit = &report["limits"][0];
    let told = limit["not_judged"].as_str().unwrap_or_default();
    assert!(
        code == 0 && told.contains("reports a limit of 9, the configuration has 5"),
        "{report}"
    );
}

/// A request that waits for its retry time is allowed, and not much sooner.
#[test]
fn retry_times_are_tested() {
    let yaml = "limits: [{name: api, key: [user], algorithm: token_bucket, capacity: 1, refill_rate: 10/s}]";
    let service = [Tollgate::with_config(yaml)];
    let arguments = [
        "-a",
        "user={key}",
        "--keys",
        "uniform:3",
        "--rate",
        "100",
        "--duration",
        "500ms",
    ];
    let (_, report) = report(
        &service,
        &[&arguments[..], &["--retry-for", "20s"]].concat(),
    );
    let told = &report["retry_after"];
    assert!(told["tried"].as_u64() >= Some(2), "{report}");
    assert_eq!(
        (&told["on_time"], &told["early"], &told["long"]),
        (&told["tried"], &0.into(), &0.into()),
        "{told}"
    );
    let hourly = [Tollgate::with_config(
        "limits: [{name: api, key: [], algorithm: sliding_log, limit: 5, window: 1h}]",
    )];
    let (_, out, _) = load(&hourly, &["--rate", "50", "--duration", "200ms"]);
    assert!(
        out.contains("retry-after  not tested, 1 skipped (Retry-After longer than --retry-for)"),
        "{out}"
    );
}
