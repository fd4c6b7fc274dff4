//! The `tollgate` binary as its users meet it: what it prints, where, and with which exit code.
//! What needs a running service is in `tests/service`.

mod arguments;
mod docs;
mod golden;
mod json;
mod page;
mod pages;
mod pipes;
mod simulate;

use std::path::PathBuf;
use std::process::{Command, Output};

/// What the variables of the examples hold. None of it is ever printed.
const SECRETS: [(&str, &str); 2] = [
    ("REDIS_PASSWORD", "hunter2-correct-horse"),
    ("TOLLGATE_HASH_SECRET", "battery-staple-0123456789"),
];

/// The binary, in the root of the repository, so that paths are the same everywhere; and with
/// nothing in its environment that a test does not know.
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
