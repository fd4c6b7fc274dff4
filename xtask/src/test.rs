//! `cargo xtask test`: runs every test except the slow ones of `cargo xtask faults`.

use crate::node;
use crate::run::{Plan, Step};
use crate::servers::Servers;
use crate::tools;
use crate::workspace::Workspace;

/// Runs unit and integration tests first, then those of the Node package. The doctests of the published crates come last, because
/// nextest does not run them.
pub(crate) fn plan(workspace: &Workspace) -> Plan {
    let servers = Servers::for_tests(workspace);

    let mut tests = match tools::NEXTEST.ensure(workspace) {
        Ok(nextest) => nextest.command(&["run", "--workspace", "--no-fail-fast"]),
        Err(reason) => {
            eprintln!("{reason}. Using `cargo test`, which runs the same tests, more slowly.");
            workspace.cargo("test --workspace --tests --no-fail-fast")
        }
    };
    servers.pass_to(&mut tests);

    let mut doctests = workspace.cargo("test --doc --no-fail-fast");
    for package in workspace
        .packages
        .iter()
        .filter(|package| package.is_publishable())
    {
        doctests.args(["--package", &package.name]);
    }

    let node = node::test(workspace, &servers);
    let mut steps = servers.missing();
    steps.push(Step::new("tests", tests));
    steps.extend(node);
    Plan {
        steps,
        closing: Some(Step::new("doctests", doctests)),
    }
}
