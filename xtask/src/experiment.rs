//! `cargo xtask experiment`: tests of guarantees with real processes, and what they cost at scale.
//! Like benchmarks, they are not part of `ci`: they take minutes and the whole machine.

use std::process::Command;

use crate::bench;
use crate::cli::Experiment;
use crate::error::Error;
use crate::servers::Servers;
use crate::workspace::Workspace;

/// The commands to run, in order.
pub(crate) fn commands(
    workspace: &Workspace,
    experiment: Experiment,
) -> Result<Vec<Command>, Error> {
    let servers = Servers::for_experiments(workspace).into_complete()?;
    match experiment {
        Experiment::Strictness { args } => {
            let mut command = bench::benchmark(workspace, "strictness", args);
            servers.pass_to(&mut command);
            Servers::for_wrong_clocks(workspace).pass_to(&mut command);
            Ok(vec![bench::service(workspace), command])
        }
        Experiment::Scale { args } => {
            let mut command = bench::benchmark(workspace, "scale", args);
            servers.pass_to(&mut command);
            Ok(vec![command])
        }
    }
}
