//! What the store logs, if the feature `tracing` is enabled.
#![cfg_attr(
    not(feature = "tracing"),
    expect(unused_variables, reason = "only log messages contain them")
)]

use crate::endpoint::Address;
use crate::error::ServerError;
use crate::locator::ServerLocator;

pub(crate) fn connected(server: &Address) {
    #[cfg(feature = "tracing")]
    tracing::info!(%server, "connected to the store");
}

/// Logs a warning when a link goes down. Failed attempts after that are logged at debug level.
pub(crate) fn unavailable(server: &ServerLocator, error: &ServerError, was_up: bool) {
    #[cfg(feature = "tracing")]
    if was_up {
        tracing::warn!(%server, %error, "store unavailable; reconnecting in the background");
    } else {
        tracing::debug!(%server, %error, "store still unavailable");
    }
}

pub(crate) fn map_not_refreshed(error: &ServerError) {
    #[cfg(feature = "tracing")]
    tracing::debug!(%error, "cannot refresh the cluster's slot map");
}
