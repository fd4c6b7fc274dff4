//! `cargo xtask deny`: what the dependencies may be, as `deny.toml` says.

use crate::error;
use crate::run::{self, Plan, Step};
use crate::tools::{self, Invocation};
use crate::workspace::Workspace;

const POLICY: &str = "cargo-deny";
const ADVISORIES: &str = "advisories";

/// Building cargo-deny takes two minutes the first time; it is kept with the other tools after
/// that.
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

/// The list of known vulnerabilities lives elsewhere. Being offline is no fault of the code, so it
/// fails nothing.
fn advisories(deny: &Invocation<'_>) -> Step {
    match run::output(deny.command(&["fetch", "db"])) {
        Ok(_) => Step::new(ADVISORIES, deny.command(&["check", "advisories"])),
        Err(error) => Step::skipped(
            ADVISORIES,
            format!("no database: {}", error::with_sources(&error)),
        ),
    }
}
