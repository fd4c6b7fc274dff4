//! Closed pipes, as with `head -1`: no panic, and the usual exit code.

use std::io::Read as _;
use std::process::Stdio;

use super::{command, text};

/// Runs a command whose standard output is closed.
fn run_with_closed_stdout(arguments: &[&str]) -> (Option<i32>, String) {
    let mut process = command(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    drop(process.stdout.take());
    let mut stderr = Vec::new();
    process
        .stderr
        .take()
        .expect("it is piped")
        .read_to_end(&mut stderr)
        .expect("it ends");
    let code = process.wait().expect("it is ours").code();
    (code, text(&stderr).to_owned())
}

#[test]
fn a_closed_stdout_is_not_an_error() {
    for arguments in [
        &["--help"][..],
        &["help", "check"],
        &["schema"],
        &["completions", "bash"],
        &[
            "explain",
            "--config",
            "examples/tollgate.yaml",
            "-a",
            "client_ip=203.0.113.7",
        ],
        &["explain", "--json", "-a", "client_ip=203.0.113.7"],
        &["validate", "examples/tollgate.yaml"],
        &["validate", "--json", "examples/tollgate.yaml"],
    ] {
        assert_eq!(
            run_with_closed_stdout(arguments),
            (Some(0), String::new()),
            "{arguments:?}"
        );
    }
    let (code, _) = run_with_closed_stdout(&["validate", "--json", "nowhere.yaml"]);
    assert_eq!(code, Some(2));
}

#[test]
fn a_closed_stderr_does_not_change_the_exit_code() {
    for arguments in [
        &["validate", "nowhere.yaml"][..],
        &["explain", "-a", "x"],
        &["serve", "--config", "nowhere.yaml"],
    ] {
        let mut process = command(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        drop(process.stderr.take());
        assert_eq!(
            process.wait().expect("it is ours").code(),
            Some(2),
            "{arguments:?}"
        );
    }
}

/// A full disk is an error: the output is lost.
#[test]
fn lost_output_is_an_error() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a system that has one");
    let output = command(&["schema"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .expect("the binary was built");
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stderr).starts_with("error: cannot write the output: "),
        "{}",
        text(&output.stderr)
    );
}
