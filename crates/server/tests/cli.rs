//! The `tollgate` binary as its users meet it: what it prints, where, and with which exit code.

use std::process::{Command, Output};

fn tollgate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(arguments)
        .output()
        .expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the binary prints UTF-8")
}

#[test]
fn serve_says_that_it_is_not_there_and_what_is() {
    let output = tollgate(&["serve"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let message = text(&output.stderr);
    assert!(message.contains("`serve` is not there yet"), "{message}");
    assert!(message.contains(env!("CARGO_PKG_VERSION")), "{message}");
    assert!(message.contains("cargo doc --open -p tollgate"), "{message}");
}

#[test]
fn help_lists_what_there_is() {
    let output = tollgate(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("serve"), "{output:?}");
}

#[test]
fn version_is_the_package_s() {
    let output = tollgate(&["--version"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), concat!("tollgate ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn no_command_at_all_shows_the_help_and_fails() {
    let output = tollgate(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Usage: tollgate"), "{output:?}");
}

#[test]
fn a_misspelt_command_gets_a_suggestion() {
    let output = tollgate(&["sevre"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("'serve'"), "{output:?}");
}
