//! `cargo xtask deny`: what the dependencies may be, as `deny.toml` says.

use crate::error;
use crate::run::{self, Plan, Step};
use crate::tools::{self, Invocation};
use crate::workspace::Workspace;

const POLICY: &str = "cargo-deny";
const ADVISORIES: &str = "advisories";

/// What to do when cargo-deny is not there. Building it takes a minute or two: right when it was asked for by name,
/// too long as a part of every fresh check.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Absent {
    Install,
    Skip,
}

pub(crate) fn plan(workspace: &Workspace, absent: Absent) -> Plan {
    let deny = match absent {
        Absent::Install => tools::DENY.ensure(workspace),
        Absent::Skip => tools::DENY
            .find(workspace)
            .ok_or_else(|| "cargo-deny is not installed; `cargo xtask deny` installs it".to_owned()),
    };
    let steps = match deny {
        Ok(deny) => vec![policy(&deny), advisories(&deny)],
        Err(reason) => vec![Step::skipped(POLICY, reason.clone()), Step::skipped(ADVISORIES, reason)],
    };
    Plan { steps, closing: None }
}

fn policy(deny: &Invocation<'_>) -> Step {
    let arguments = ["check", "--hide-inclusion-graph", "licenses", "bans", "sources"];
    Step::new(POLICY, deny.command(&arguments))
}

/// The list of known vulnerabilities lives elsewhere. Being offline is no fault of the code, so it fails nothing.
fn advisories(deny: &Invocation<'_>) -> Step {
    match run::output(deny.command(&["fetch", "db"])) {
        Ok(_) => Step::new(ADVISORIES, deny.command(&["check", "advisories"])),
        Err(error) => Step::skipped(ADVISORIES, format!("no database: {}", error::with_sources(&error))),
    }
}
