//! What the store logs, if the feature `tracing` is enabled: the state of single servers, at debug
//! level, and servers that may forget counters, as warnings. An outage is logged by the limiter,
//! once for all servers.
#![cfg_attr(
    not(feature = "tracing"),
    expect(unused_variables, reason = "only log messages contain them")
)]

use std::fmt;

use tollgate::LimitName;

use crate::endpoint::Address;
use crate::error::ServerError;
use crate::locator::ServerLocator;

pub(crate) fn connected(server: &Address) {
    #[cfg(feature = "tracing")]
    tracing::debug!(%server, "connected to the store");
}

pub(crate) fn may_forget(warning: &impl fmt::Display) {
    #[cfg(feature = "tracing")]
    tracing::warn!("{warning}");
}

/// For a call that no request waits for. The limiter logs the others, with a digest of the key.
pub(crate) fn malformed_counter(limit: LimitName) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        kind = "malformed",
        limit = limit.as_str(),
        "another program has written to a counter, which was deleted"
    );
}

pub(crate) fn other_layout(error: &impl fmt::Display) {
    #[cfg(feature = "tracing")]
    tracing::error!("the store is not used, and failure policies decide: {error}");
}

pub(crate) fn other_layout_gone() {
    #[cfg(feature = "tracing")]
    tracing::info!("the store is used again: no other version uses it");
}

pub(crate) fn unavailable(server: &ServerLocator, error: &ServerError) {
    #[cfg(feature = "tracing")]
    tracing::debug!(%server, %error, "server unavailable; reconnecting in the background");
}

pub(crate) fn map_not_refreshed(error: &ServerError) {
    #[cfg(feature = "tracing")]
    tracing::debug!(%error, "cannot refresh the cluster's slot map");
}
