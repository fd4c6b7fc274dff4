//! How a load ends, and what scripts can rely on.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Child, Command};

use serde_json::{Value, json};
use testkit::{reverse_proxy, wait};

use super::{ended, load, report, started};
use crate::harness::{PATIENCE, Tollgate};

/// The number of decisions with this outcome.
fn decided(service: &Tollgate, outcome: &str) -> u64 {
    let metrics = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let wanted = format!("outcome=\"{outcome}\"");
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with("tollgate_decisions_total") && line.contains(&wanted));
    lines
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum()
}

/// The names of all members. Those of list items are included once.
fn members(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            object
                .iter()
                .for_each(|(name, value)| members(value, &format!("{path}.{name}"), found));
        }
        Value::Array(list) if list.first().is_some_and(Value::is_object) => {
            list.first()
                .into_iter()
                .for_each(|first| members(first, &format!("{path}[]"), found));
        }
        _ => found.push(path.to_owned()),
    }
}

/// 100 requests per hour for all clients together.
const HUNDRED: &str =
    "limits: [{name: api, key: [], algorithm: sliding_log, limit: 100, window: 1h}]";

#[test]
fn the_json_report_has_these_members() {
    let service = [Tollgate::with_config(HUNDRED)];
    let (code, report) = report(
        &service,
        &["--rate", "200", "--duration", "1s", "--retry-for", "0s"],
    );
    let mut found = Vec::new();
    members(&report, "", &mut found);
    found.sort_unstable();
    let expected = include_str!("members.txt");
    assert_eq!(found.join("\n") + "\n", expected, "scripts rely on them");
    let page = include_str!("../../../../../docs/load.md");
    for name in expected
        .lines()
        .flat_map(|path| path.split(['.', '[', ']']))
        .filter(|name| !name.is_empty())
    {
        let is_told = page.contains(&format!("`{name}`")) || page.contains(&format!("`{name}[]`"));
        assert!(is_told, "docs/load.md does not document {name}");
    }
    let requests = &report["requests"];
    assert_eq!(
        (code, &requests["allowed"], &requests["denied"]),
        (0, &100.into(), &100.into()),
        "{report}"
    );
    assert_eq!(
        report["timeline"]["allowed"].as_array().map(Vec::len),
        Some(60)
    );
}

#[test]
fn the_same_seed_sends_the_same_requests() {
    let ask = |seed| {
        let service = [Tollgate::with_config(
            "limits: [{name: api, key: [user], algorithm: sliding_log, limit: 9, window: 1h}]",
        )];
        let keys = [
            "--keys",
            "zipf:20:1.2",
            "-a",
            "user={key}",
            "--seed",
            seed,
            "--cost",
            "1-3",
        ];
        let (_, report) = report(
            &service,
            &[
                &keys[..],
                &["--rate", "200", "--duration", "500ms", "--retry-for", "0s"],
            ]
            .concat(),
        );
        (
            report["limits"][0]["keys"].clone(),
            report["requests"]["sent"].clone(),
        )
    };
    assert_eq!(ask("7"), ask("7"));
    assert_ne!(
        ask("7"),
        ask("8"),
        "twenty keys are not all drawn by a hundred requests"
    );
}

#[test]
fn an_unreachable_replica_is_an_error() {
    let free = TcpListener::bind("127.0.0.1:0")
        .expect("a free port")
        .local_addr()
        .expect("it is bound")
        .to_string();
    let (code, out, err) = load(&[], &["--url", &free]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(
        err.contains(&free) && err.contains("is the service running there?"),
        "{err}"
    );
    // One of two is not enough: what is not loaded is not judged.
    let service = [Tollgate::start()];
    assert_eq!(load(&service, &["--url", &free]).0, 3);
    // Somebody is there, but nobody who decides.
    let (code, _, err) = load(&[], &["--url", &service[0].admin.to_string()]);
    assert!(code == 2 && err.contains("404"), "{err}");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("it is bound").to_string();
    let (code, _, err) = ended(
        &Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .args(["load", "--timeout", "50ms", "--url", &address])
            .output()
            .expect("the binary was built"),
    );
    assert!(code == 3 && err.contains("timed out after 50ms"), "{err}");
    let (code, out, _) = load(&[], &["--json", "--url", &free]);
    let failure: Value = serde_json::from_str(&out).expect("one object");
    assert!(code == 3 && failure["error"].is_string(), "{out}");
}

#[test]
fn an_invalid_request_is_reported_before_the_load() {
    let service = [Tollgate::start()];
    let (code, out, err) = load(&service, &["-a", "tenant={key}"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("422") && err.contains("`client_ip`"), "{err}");
    assert_eq!(decided(&service[0], "allowed"), 0);
}

/// Ends a load as Ctrl-C does.
fn interrupted(mut load: Child) -> (i32, Value) {
    let sent = Command::new("kill")
        .args(["-INT", &load.id().to_string()])
        .status();
    assert!(sent.expect("there is a kill").success());
    wait::until(PATIENCE, "the load to end", || {
        load.try_wait().expect("it is ours")
    });
    let (code, out, err) = ended(&load.wait_with_output().expect("it has ended"));
    (
        code,
        serde_json::from_str(&out)
            .map_err(|error| format!("{error}: {err}"))
            .expect("a report"),
    )
}

#[test]
fn an_interrupted_load_prints_its_report() {
    let service = [Tollgate::with_config(HUNDRED)];
    let load = started(&service, &["--json", "--rate", "200", "--duration", "1h"]);
    wait::until_true(PATIENCE, "decisions", || {
        decided(&service[0], "denied") > 10
    });
    let (code, report) = interrupted(load);
    assert_eq!(
        (code, &report["ended_early"]),
        (0, &true.into()),
        "{report}"
    );
    assert!(
        report["requests"]["decided"].as_u64() > Some(100),
        "{report}"
    );
    assert!(report["duration_s"].as_f64() < Some(3_600.0), "{report}");
}

/// A replica that dies causes errors, but does not stop the load.
#[test]
fn errors_are_counted_and_the_load_continues() {
    let replicas = [Tollgate::start(), Tollgate::start()];
    let load = started(&replicas, &["--json", "--rate", "200", "--duration", "1h"]);
    wait::until_true(PATIENCE, "decisions", || {
        decided(&replicas[1], "allowed") > 10
    });
    replicas[1].signal("KILL");
    let before = decided(&replicas[0], "allowed") + decided(&replicas[0], "denied");
    // They are asked in turn, so the other one was asked meanwhile.
    wait::until_true(PATIENCE, "more decisions", || {
        decided(&replicas[0], "allowed") + decided(&replicas[0], "denied") > before + 50
    });
    let (code, report) = interrupted(load);
    assert!(
        report["errors"]["connection"].as_u64() > Some(0) && report["errors"]["first"].is_string(),
        "{report}"
    );
    assert_eq!(
        (code, &report["failures"], &report["replicas"][0]["errors"]),
        (1, &json!(["errors"]), &0.into()),
        "{report}"
    );
}

/// Any application decides by its status.
#[test]
fn applications_are_loaded_by_their_paths() {
    let service = [Tollgate::start()];
    let arguments = [
        "--get",
        "/healthz?who={key}",
        "-a",
        "header:x-key={key}",
        "--rate",
        "100",
        "--duration",
        "200ms",
    ];
    let (code, unlimited) = report(&service, &arguments);
    let requests = &unlimited["requests"];
    assert_eq!(
        (code, &requests["allowed"], &requests["unlimited"]),
        (1, &20.into(), &20.into())
    );
    assert_eq!(
        (&unlimited["limits"], &unlimited["failures"]),
        (&json!([]), &json!(["unlimited"]))
    );
    let accepted = [&arguments[..], &["--unlimited-max", "100%"]].concat();
    assert_eq!(report(&service, &accepted).0, 0);
    let (code, out, _) = load(&service, &[&arguments[..], &["--allow", "5/1h"]].concat());
    assert!(
        code == 1 && out.contains("limit  EXCEEDED by 15: 20 admitted from 0."),
        "{out}"
    );
    let (code, _, err) = load(
        &service,
        &["--get", "/nowhere", "--rate", "100", "--duration", "100ms"],
    );
    assert!(
        code == 3 && err.contains("none of 10 requests got a decision") && err.contains("404"),
        "{err}"
    );
}

/// Keys from a file may be secrets.
#[test]
fn keys_of_a_file_are_sent_and_never_shown() {
    let service = [Tollgate::with_config(
        "limits: [{name: api, key: [user], algorithm: sliding_log, limit: 5, window: 1h}]",
    )];
    let file = service[0].config_path().with_extension("keys");
    std::fs::write(&file, "sesame-1\nsesame-2\n").expect("a writable directory");
    let keys = format!("file:{}", file.display());
    let arguments = [
        "--keys",
        &keys,
        "-a",
        "user={key}",
        "--rate",
        "100",
        "--duration",
        "500ms",
        "--retry-for",
        "0s",
    ];
    let (code, out, err) = load(&service, &[&arguments[..], &["--json"]].concat());
    assert!(
        code == 0 && !out.contains("sesame") && !err.contains("sesame"),
        "{out}{err}"
    );
    assert!(
        out.contains(r#""allowed":10,"denied":40"#) && out.contains("of the file"),
        "{out}"
    );
}

/// Without a terminal, progress is printed as separate lines.
#[test]
fn progress_goes_to_standard_error() {
    let service = [Tollgate::start()];
    let mut load = started(&service, &["--rate", "20", "--duration", "1h"]);
    let mut line = [0; 64];
    let read = load
        .stderr
        .take()
        .expect("it is piped")
        .read(&mut line)
        .expect("a line comes");
    let text = String::from_utf8_lossy(&line[..read]).into_owned();
    assert!(
        text.contains("s of 3600.0s  allowed ") && !text.contains('\x1b'),
        "{text}"
    );
    load.kill().and_then(|()| load.wait()).expect("it is ours");
}
