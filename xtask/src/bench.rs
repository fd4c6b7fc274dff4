//! `cargo xtask bench`: measurements. They are no part of `ci`, because a busy machine must not fail a change.

use std::process::Command;

use crate::cli::Bench;
use crate::error::Error;
use crate::servers::Servers;
use crate::workspace::Workspace;

pub(crate) fn command(workspace: &Workspace, bench: Bench) -> Result<Command, Error> {
    match bench {
        Bench::Memory { args } => Ok(benchmark(workspace, "memory", args)),
        Bench::Redis { args } => {
            let mut command = benchmark(workspace, "redis", args);
            Servers::for_benchmarks(workspace).into_complete()?.pass_to(&mut command);
            Ok(command)
        }
    }
}

fn benchmark(workspace: &Workspace, name: &str, args: Vec<String>) -> Command {
    let mut command = workspace.cargo("run --release --package tollgate-bench --");
    command.arg(name).args(args);
    command
}

#[cfg(test)]
mod tests {
    use super::benchmark;
    use crate::run;
    use crate::workspace::tests::sample;

    #[test]
    fn a_benchmark_is_built_for_release_and_gets_its_arguments() {
        let command = benchmark(&sample(), "redis", vec!["--quick".into()]);
        let line = run::command_line(&command);
        assert_eq!(line, "cargo run --release --package tollgate-bench -- redis --quick");
    }
}
