//! `cargo xtask ci`: every check and test that a change must pass. `.ci/run` calls it.

use crate::lint;
use crate::run::Plan;
use crate::test::{self, Volume};
use crate::workspace::Workspace;

pub(crate) fn plan(workspace: &Workspace) -> Plan {
    let Plan { mut steps, .. } = lint::plan(workspace);
    let tests = test::plan(workspace, Volume::Tenth);
    steps.extend(tests.steps);
    Plan {
        steps,
        closing: tests.closing,
    }
}
