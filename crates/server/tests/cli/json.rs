//! The output of `--json`.

use serde_json::Value;

use super::{command, text, tollgate};

fn object(arguments: &[&str], code: i32) -> Value {
    let output = tollgate(arguments);
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one object")
}

#[test]
fn a_valid_configuration() {
    let found = object(&["validate", "--json", "examples/tollgate.yaml"], 0);
    assert_eq!(
        (&found["valid"], &found["faults"]),
        (&true.into(), &serde_json::json!([]))
    );
    assert_eq!(found["files"][0]["store"], "redis-cluster");
    assert_eq!(
        found["files"][0]["limits"].as_array().map(Vec::len),
        Some(8)
    );
}

/// A bidirectional control would show the rest of the line reversed.
#[test]
fn hidden_characters_reach_no_terminal() {
    let explain = |options: &[&str]| {
        let config = "crates/server/tests/cli/data/simulate/a.yaml";
        let tenant = ["-a", "client_ip=203.0.113.7", "-a", "tenant=acme\u{202e}"];
        let output = tollgate(&[&["explain", "-c", config], &tenant[..], options].concat());
        format!("{}{}", text(&output.stdout), text(&output.stderr))
    };

    let lines = explain(&[]);
    assert!(lines.contains("tenant = acme\\u{202e}"), "{lines}");
    let json = explain(&["--json"]);
    assert!(json.contains(r#""acme\u202e""#), "{json}");
    assert!(!lines.contains('\u{202e}') && !json.contains('\u{202e}'));
}

#[test]
fn diagnostics_have_a_position() {
    let found = object(
        &[
            "validate",
            "--json",
            "crates/server/tests/cli/data/endpoints.yaml",
        ],
        2,
    );
    assert_eq!(found["valid"], false);
    let fault = &found["faults"][0];
    assert_eq!((&fault["line"], &fault["column"]), (&6.into(), &7.into()));
    assert_eq!(fault["field"], "store.endpoints[1]");
    assert!(
        fault["file"]
            .as_str()
            .is_some_and(|file| file.ends_with("endpoints.yaml"))
    );
}

#[test]
fn explanations() {
    let found = object(
        &["explain", "--json", "-a", "client_ip=2001:db8:1:2:3::4"],
        0,
    );
    let limit = &found["limits"][0];
    assert_eq!(
        (&limit["name"], &limit["outcome"]),
        (&"default".into(), &"applies".into())
    );
    assert_eq!(limit["key"][0]["value"], "2001:db8:1:2::");
    assert_eq!(
        (&limit["limit"], &limit["window_us"]),
        (&100.into(), &60_000_000.into())
    );
    let found = object(&["explain", "--json"], 0);
    assert_eq!(found["limits"][0]["outcome"], "error");
}

#[test]
fn failures_are_objects() {
    let found = object(&["check", "--json", "--url", "ftp://h"], 2);
    assert!(
        found["error"]
            .as_str()
            .is_some_and(|error| error.contains("http or https")),
        "{found}"
    );
    let found = object(&["explain", "--json", "-a", "x"], 2);
    assert!(found["error"].is_string());
}

#[test]
fn the_schema_is_printed() {
    let schema = object(&["schema"], 0);
    assert_eq!(
        schema["properties"]["limits"]["type"], "array",
        "{:?}",
        schema["properties"]["limits"]
    );
}

/// Checks only what all shells have in common; a stricter test would need the shells themselves.
#[test]
fn every_shell_has_a_script_with_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = tollgate(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("validate"), "{shell}");
    }
    assert_eq!(tollgate(&["completions", "dos"]).status.code(), Some(2));
}

#[test]
fn bash_accepts_its_script() {
    let script = tollgate(&["completions", "bash"]);
    let checked = std::process::Command::new("bash")
        .args(["-nc", text(&script.stdout)])
        .status();
    assert!(checked.expect("there is a bash").success());
}

#[test]
fn a_dash_reads_standard_input() {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut command = command(&["validate", "-"]);
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    process
        .stdin
        .take()
        .unwrap()
        .write_all(b"limits: []\n")
        .unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "<stdin>:1:9: limits: expected 1 to 1000 limits, found 0\n"
    );
}

#[test]
fn an_import_writes_a_file_once() {
    const SOURCE: &str = "crates/server/tests/cli/data/import/kong.yaml";
    let found = object(&["import", "--json", SOURCE], 0);
    assert_eq!(found["format"], "Kong");
    assert!(found["gaps"][0]["line"].is_u64() && found["gaps"][0]["advice"].is_string());

    let directory = std::env::temp_dir().join(format!("tollgate-import-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("tollgate.yaml");
    let written = |arguments: &[&str]| {
        let output = ["import", SOURCE, "--output", file.to_str().unwrap()];
        tollgate(&[&output[..], arguments].concat())
    };
    assert_eq!(written(&[]).status.code(), Some(0));
    let config = std::fs::read_to_string(&file).unwrap();
    assert_eq!(found["config"], config);

    let refused = written(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("exists; --force replaces it"));
    assert_eq!(written(&["--force"]).status.code(), Some(0));
    object(&["validate", "--json", file.to_str().unwrap()], 0);
    std::fs::remove_dir_all(directory).unwrap();
}
