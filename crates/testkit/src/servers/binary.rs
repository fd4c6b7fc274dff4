//! Which program a flavor is.

use std::path::PathBuf;

use super::Flavor;
use crate::processes::find_program;

/// The program of a flavor.
///
/// # Panics
///
/// When it is nowhere, saying how to get it.
pub(super) fn find(flavor: Flavor) -> PathBuf {
    match flavor {
        Flavor::Redis => find_program("TOLLGATE_REDIS_SERVER", "redis-server"),
        Flavor::Valkey => find_program("TOLLGATE_VALKEY_SERVER", "valkey-server"),
    }
}
