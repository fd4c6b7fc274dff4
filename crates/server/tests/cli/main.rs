//! The `tollgate` binary: its output and exit codes. Tests that need a running service are in
//! `tests/service`.

mod arguments;
mod docs;
mod golden;
mod json;
mod page;
mod pages;
mod pipes;
mod report_page;
mod simulate;

use std::path::PathBuf;
use std::process::{Command, Output};

/// The variables of the examples. Their values are never printed.
const SECRETS: [(&str, &str); 3] = [
    ("REDIS_PASSWORD", "hunter2-correct-horse"),
    ("TOLLGATE_HASH_SECRET", "battery-staple-0123456789"),
    ("TOLLGATE_WEBHOOK_SECRET", "staple-correct-0123456789"),
];

/// The binary, run in the root of the repository so that paths are the same everywhere, with an
/// empty environment besides the secrets.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command
        .args(arguments)
        .current_dir(root())
        .env_clear()
        .envs(SECRETS);
    command
}

fn tollgate(arguments: &[&str]) -> Output {
    command(arguments)
        .output()
        .expect("the binary was built for this test")
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the binary prints UTF-8")
}
