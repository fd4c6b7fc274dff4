//! All commands: each, except `serve`, does one thing, prints the result and ends with an exit code.
//!
//! They use a running service over HTTP, as its clients do, and read the configuration as the
//! service does. They do not depend on how the service is run.

mod actions;
mod attributes;
mod audit_paths;
mod check;
mod client;
mod completions;
mod configuration;
mod decision;
mod explain;
mod import;
mod keys;
mod load;
mod numbers;
mod outcome;
mod request;
mod reserve;
mod simulate;
mod terminal;
mod validate;

use std::process::ExitCode;

pub use actions::{
    ActionArgs, ActionsCommand, AdminArgs, BlockArgs, ExemptArgs, ListActionsArgs, OverrideArgs,
    RemoveActionArgs, ShadowArgs, TargetArgs,
};
pub use attributes::AttributeArgs;
pub use audit_paths::AuditPathsArgs;
pub use check::CheckArgs;
pub use client::{ClientArgs, ConnectionArgs};
pub use completions::CompletionsArgs;
pub use explain::ExplainArgs;
pub use import::{ImportArgs, ImportFormat};
pub use keys::{KeyArgs, KeysArgs, KeysCommand, TopArgs};
pub use load::LoadArgs;
pub use request::RequestArgs;
pub use reserve::{CancelArgs, ReservationArgs, ReserveArgs, SettleArgs};
pub use simulate::{LogLayout, SimulateArgs};
pub use validate::ValidateArgs;

pub(crate) use actions::{block, exempt, override_numbers, shadow};
pub(crate) use audit_paths::run as audit_paths;
pub(crate) use check::run as check;
pub(crate) use completions::{completions, schema};
pub(crate) use explain::run as explain;
pub(crate) use import::run as import;
pub(crate) use keys::run as keys;
pub(crate) use load::run as load;
pub(crate) use reserve::{cancel, reserve, settle};
pub(crate) use simulate::run as simulate;
pub(crate) use validate::run as validate;

use self::outcome::{Exit, finish, invalid};
use crate::serve::{self, ServeArgs};

/// Runs the service until a signal stops it.
pub(crate) fn serve(args: &ServeArgs) -> ExitCode {
    let result = serve::run(args).map(|()| (String::new(), Exit::Done));
    finish(result.map_err(invalid), false)
}
