//! Readers that go before the end, as `head -1` does. No panic, and the exit code is the command's
//! own.

use std::io::Read as _;
use std::process::Stdio;

use super::{command, text};

/// Runs a command whose standard output nobody reads.
fn unread(arguments: &[&str]) -> (Option<i32>, String) {
    let mut process = command(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    drop(process.stdout.take());
    let mut told = Vec::new();
    process
        .stderr
        .take()
        .expect("it is piped")
        .read_to_end(&mut told)
        .expect("it ends");
    let code = process.wait().expect("it is ours").code();
    (code, text(&told).to_owned())
}

#[test]
fn nobody_need_read_to_the_end() {
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
        assert_eq!(unread(arguments), (Some(0), String::new()), "{arguments:?}");
    }
    let (code, _) = unread(&["validate", "--json", "nowhere.yaml"]);
    assert_eq!(code, Some(2));
}

#[test]
fn nobody_need_read_the_complaints() {
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

/// A disk that is full is a reason to fail: what was asked for is not there.
#[test]
fn output_that_is_lost_is_a_failure() {
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
