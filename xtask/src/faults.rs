//! `cargo xtask faults`: the slow tests, which inject faults into the servers of the Redis store.
//!
//! They take minutes, so `ci` does not run them. They run one at a time, so that each has the
//! machine to itself, and their output is shown.

use std::process::Command;

use crate::run::{Plan, Step};
use crate::servers::Servers;
use crate::tools;
use crate::workspace::Workspace;

pub(crate) fn plan(workspace: &Workspace, args: Vec<String>) -> Plan {
    let servers = Servers::for_tests(workspace);
    let mut tests = match tools::NEXTEST.ensure(workspace) {
        Ok(nextest) => with_nextest(nextest.command(&["run"]), args),
        Err(reason) => {
            eprintln!("{reason}. Using `cargo test`, which runs the same tests.");
            with_cargo(workspace, args)
        }
    };
    servers.pass_to(&mut tests);
    let mut steps = servers.missing();
    steps.push(Step::new("faults", tests));
    Plan {
        steps,
        closing: None,
    }
}

fn with_nextest(mut run: Command, args: Vec<String>) -> Command {
    run.args([
        "--package",
        "tollgate-redis",
        "--run-ignored",
        "ignored-only",
        "--no-capture",
    ])
    .args(args);
    run
}

fn with_cargo(workspace: &Workspace, args: Vec<String>) -> Command {
    let mut test =
        workspace.cargo("test --package tollgate-redis --tests --no-fail-fast -- --ignored");
    test.args(["--nocapture", "--test-threads=1"]).args(args);
    test
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;
    use crate::workspace::tests::sample;

    #[test]
    fn only_the_long_tests_of_the_shared_store_run() {
        let run = with_nextest(sample().cargo("nextest run"), vec!["frozen".into()]);
        let line = run::command_line(&run);
        let expected = "cargo nextest run --package tollgate-redis --run-ignored ignored-only --no-capture frozen";
        assert_eq!(line, expected);

        let test = with_cargo(&sample(), vec!["frozen".into()]);
        let line = run::command_line(&test);
        assert!(
            line.ends_with("-- --ignored --nocapture --test-threads=1 frozen"),
            "{line}"
        );
    }
}
