//! `tollgate load` against real replicas: it reports exceeded limits, and no others.

mod ends;
mod verdicts;

use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::harness::Tollgate;

/// Every algorithm that counts over time, with quotas per hour, so that nothing is refilled during a
/// test.
const AN_HOUR: [(&str, &str); 5] = [
    (
        "bucket",
        "algorithm: token_bucket, capacity: 20, refill_rate: 1/h",
    ),
    (
        "leaky",
        "algorithm: leaky_bucket, capacity: 20, leak_rate: 1/h",
    ),
    ("fixed", "algorithm: fixed_window, limit: 20, window: 1h"),
    (
        "sliding",
        "algorithm: sliding_window, limit: 20, window: 1h",
    ),
    ("log", "algorithm: sliding_log, limit: 20, window: 1h"),
];

/// The same with quotas per second, so that the limits are at their bound all the time.
const A_SECOND: [(&str, &str); 4] = [
    (
        "bucket",
        "algorithm: token_bucket, capacity: 20, refill_rate: 100/s",
    ),
    ("fixed", "algorithm: fixed_window, limit: 40, window: 200ms"),
    (
        "sliding",
        "algorithm: sliding_window, limit: 40, window: 200ms",
    ),
    ("log", "algorithm: sliding_log, limit: 40, window: 200ms"),
];

/// Limits by user that only apply if a request names them.
fn limits(numbers: &[(&str, &str)], consistency: &str) -> String {
    let limit = |(name, numbers): &(&str, &str)| {
        format!(
            "- {{name: {name}, match: {{path: /never}}, key: [user], consistency: {consistency}, {numbers}}}\n"
        )
    };
    "limits:\n".to_owned() + &numbers.iter().map(limit).collect::<String>()
}

fn command(replicas: &[Tollgate], arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(["load", "--timeout", "20s"]);
    for replica in replicas {
        command.arg("--url").arg(replica.http.to_string());
    }
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Exit code, standard output and standard error.
fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("the binary prints UTF-8");
    (
        output.status.code().expect("no signal"),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn load(replicas: &[Tollgate], arguments: &[&str]) -> (i32, String, String) {
    ended(
        &command(replicas, arguments)
            .output()
            .expect("the binary was built"),
    )
}

/// The report of a load, with its exit code.
pub(crate) fn report(replicas: &[Tollgate], arguments: &[&str]) -> (i32, Value) {
    let (code, out, err) = load(replicas, &[&["--json"], arguments].concat());
    let report = serde_json::from_str(&out).map_err(|error| format!("{error}: {out}{err}"));
    (code, report.expect("a report is one object"))
}

/// A running load.
fn started(replicas: &[Tollgate], arguments: &[&str]) -> Child {
    command(replicas, arguments)
        .spawn()
        .expect("the binary was built")
}
