//! `cargo xtask bench`: measurements. They are no part of `ci`, because a busy machine must not fail a change.

use std::process::Command;

use crate::cli::Bench;
use crate::workspace::Workspace;

pub(crate) fn command(workspace: &Workspace, bench: Bench) -> Command {
    let Bench::Memory { args } = bench;
    let mut command = workspace.cargo("run --release --package tollgate-bench -- memory");
    command.args(args);
    command
}
