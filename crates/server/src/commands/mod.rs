//! All commands: each, except `serve`, does one thing and returns its output with an exit code.
//!
//! They use a running service over HTTP, as its clients do, and read the configuration as the
//! service does. They do not depend on how the service is run.

pub(crate) mod actions;
mod admin_port;
mod attributes;
pub(crate) mod audit_paths;
pub(crate) mod check;
mod client;
pub(crate) mod completions;
mod configuration;
mod decision;
pub(crate) mod explain;
pub(crate) mod import;
pub(crate) mod keys;
pub(crate) mod load;
mod numbers;
mod outcome;
mod request;
pub(crate) mod reserve;
pub(crate) mod simulate;
mod terminal;
pub(crate) mod validate;

use self::outcome::{CommandResult, invalid};
pub(crate) use self::outcome::{Exit, finish};
use crate::serve::{self, ServeArgs};

/// Runs the service until a signal stops it.
pub(crate) fn serve(args: &ServeArgs) -> CommandResult {
    serve::run(args).map_err(invalid)?;
    Ok((String::new(), Exit::Done))
}
