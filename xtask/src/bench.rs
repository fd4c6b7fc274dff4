//! `cargo xtask bench`: benchmarks. `ci` does not run them, because a busy machine must not fail a
//! change.

use std::process::Command;

use crate::cli::Bench;
use crate::error::Error;
use crate::node;
use crate::servers::Servers;
use crate::workspace::Workspace;

/// The commands to run, in order.
pub(crate) fn commands(workspace: &Workspace, bench: Bench) -> Result<Vec<Command>, Error> {
    match bench {
        Bench::Memory { args } => Ok(vec![benchmark(workspace, "memory", args)]),
        Bench::Redis { args } => Ok(vec![shared(workspace, "redis", args)?]),
        Bench::Leases { args } => Ok(vec![shared(workspace, "leases", args)?]),
        Bench::Simulate { args } => Ok(vec![
            service(workspace),
            benchmark(workspace, "simulate", args),
        ]),
        Bench::Service { args } => {
            let mut command = benchmark(workspace, "service", args);
            Servers::for_service_benchmark(workspace)
                .into_complete()?
                .pass_to(&mut command);
            Ok(vec![service(workspace), command])
        }
        Bench::Node { args } => {
            let mut command = benchmark(workspace, "node", args);
            Servers::for_service_benchmark(workspace)
                .into_complete()?
                .pass_to(&mut command);
            let mut commands = node::build(workspace);
            commands.extend([service(workspace), command]);
            Ok(commands)
        }
        Bench::Tower { args } => {
            let mut command = benchmark(workspace, "tower", args);
            Servers::for_service_benchmark(workspace)
                .into_complete()?
                .pass_to(&mut command);
            Ok(vec![command])
        }
    }
}

/// Builds the service on its own. Built together with the benchmark, its dependencies would get the
/// features that the benchmark enables, which users do not have.
pub(crate) fn service(workspace: &Workspace) -> Command {
    workspace.cargo("build --release --package tollgate-server")
}

/// A benchmark that starts Redis servers.
fn shared(workspace: &Workspace, name: &str, args: Vec<String>) -> Result<Command, Error> {
    let mut command = benchmark(workspace, name, args);
    Servers::for_redis_benchmark(workspace)
        .into_complete()?
        .pass_to(&mut command);
    Ok(command)
}

pub(crate) fn benchmark(workspace: &Workspace, name: &str, args: Vec<String>) -> Command {
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
        assert_eq!(
            line,
            "cargo run --release --package tollgate-bench -- redis --quick"
        );
    }
}
