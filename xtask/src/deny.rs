//! `cargo xtask deny`: checks the dependencies against `deny.toml`.

use crate::error;
use crate::run::{self, Plan, Step};
use crate::tools::{self, Invocation};
use crate::workspace::Workspace;

const POLICY: &str = "cargo-deny";
const ADVISORIES: &str = "advisories";

/// Building cargo-deny takes two minutes the first time. Later runs reuse it.
pub(crate) fn plan(workspace: &Workspace) -> Plan {
    let deny = tools::DENY.ensure(workspace);
    let steps = match deny {
        Ok(deny) => vec![policy(&deny), advisories(&deny)],
        Err(reason) => vec![
            Step::skipped(POLICY, reason.clone()),
            Step::skipped(ADVISORIES, reason),
        ],
    };
    Plan {
        steps,
        closing: None,
    }
}

fn policy(deny: &Invocation<'_>) -> Step {
    let arguments = [
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ];
    Step::new(POLICY, deny.command(&arguments))
}

/// The list of known vulnerabilities is fetched from the network. The step does not fail offline,
/// because that is not a problem of the code.
fn advisories(deny: &Invocation<'_>) -> Step {
    match run::output(deny.command(&["fetch", "db"])) {
        Ok(_) => Step::new(ADVISORIES, deny.command(&["check", "advisories"])),
        Err(error) => Step::skipped(
            ADVISORIES,
            format!("no database: {}", error::with_sources(&error)),
        ),
    }
}
