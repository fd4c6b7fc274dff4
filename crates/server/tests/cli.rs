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
fn help_lists_what_there_is() {
    let output = tollgate(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("serve"));
}
