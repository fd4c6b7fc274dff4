//! `cargo xtask semver`: compares the public interface of the published crates with that of another
//! revision, and fails if the version numbers do not say how it changed.

use crate::run::{Plan, Step};
use crate::tools;
use crate::workspace::Workspace;

/// Building cargo-semver-checks takes some minutes the first time. Later runs reuse it.
pub(crate) fn plan(workspace: &Workspace, baseline: &str) -> Plan {
    let published = workspace.packages.iter();
    let published = published.filter(|package| package.is_publishable());
    let checks = tools::SEMVER_CHECKS.ensure(workspace);

    let step = |name: &String| match &checks {
        Ok(checks) => {
            let arguments = [
                "check-release",
                "--package",
                name,
                "--baseline-rev",
                baseline,
            ];
            Step::new(format!("semver {name}"), checks.command(&arguments))
        }
        Err(reason) => Step::skipped(format!("semver {name}"), reason.clone()),
    };
    Plan {
        steps: published.map(|package| step(&package.name)).collect(),
        closing: None,
    }
}
