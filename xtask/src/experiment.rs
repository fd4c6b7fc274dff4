//! `cargo xtask experiment`: promises put to the test. Like measurements they are no part of `ci`,
//! because they take minutes and the whole machine.

use std::process::Command;

use crate::bench;
use crate::cli::Experiment;
use crate::error::Error;
use crate::servers::Servers;
use crate::workspace::Workspace;

/// What to run, one after the other.
pub(crate) fn commands(
    workspace: &Workspace,
    experiment: Experiment,
) -> Result<Vec<Command>, Error> {
    let Experiment::Strictness { args } = experiment;
    let mut command = bench::benchmark(workspace, "strictness", args);
    Servers::for_experiments(workspace)
        .into_complete()?
        .pass_to(&mut command);
    Servers::for_wrong_clocks(workspace).pass_to(&mut command);
    Ok(vec![bench::service(workspace), command])
}
