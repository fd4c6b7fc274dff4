//! Finds the program of a flavor.

use std::path::PathBuf;

use super::Flavor;
use crate::processes::find_program;

/// The path of a flavor's program.
///
/// # Panics
///
/// If it is not found; the message says how to install it.
pub(super) fn find(flavor: Flavor) -> PathBuf {
    match flavor {
        Flavor::Redis => find_program("TOLLGATE_REDIS_SERVER", "redis-server"),
        Flavor::Valkey => find_program("TOLLGATE_VALKEY_SERVER", "valkey-server"),
    }
}
