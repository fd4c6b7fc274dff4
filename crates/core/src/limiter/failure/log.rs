//! The log lines of an outage, one when it begins, one when it ends, and of faults in the store.
//! Without the feature `tracing` there are none.

use crate::demand::Demand;
#[cfg(feature = "tracing")]
use crate::key::digest;
use crate::store::StoreError;

#[cfg(feature = "tracing")]
pub(super) fn outage_began(error: &StoreError) {
    let (kind, error) = (error.kind(), with_sources(error));
    tracing::warn!(
        kind,
        %error,
        "store unavailable; limits fall back to their failure policies"
    );
}

#[cfg(feature = "tracing")]
pub(super) fn outage_ended(degraded_ms: u64, decisions: u64) {
    tracing::info!(degraded_ms, decisions, "store available again");
}

/// The key is logged as a digest, because keys can identify people and must not appear in logs.
#[cfg(feature = "tracing")]
pub(super) fn malformed_counter(error: &StoreError, demand: Option<&Demand<'_>>) {
    let (kind, limit) = (
        error.kind(),
        demand.map(|demand| demand.limit.name().as_str()),
    );
    let digest = |demand: &Demand<'_>| format!("{:032x}", digest(&demand.key.to_bytes()));
    tracing::warn!(
        kind,
        limit,
        key_digest = demand.map(digest),
        "another program has written to a counter, which was deleted"
    );
}

#[cfg(feature = "tracing")]
pub(super) fn script_failed(error: &StoreError) {
    let (kind, error) = (error.kind(), with_sources(error));
    tracing::error!(kind, %error, "requests are denied");
}

/// The text of an error and of all its sources.
#[cfg(feature = "tracing")]
fn with_sources(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[cfg(not(feature = "tracing"))]
pub(super) fn outage_began(_: &StoreError) {}

#[cfg(not(feature = "tracing"))]
pub(super) fn outage_ended(_degraded_ms: u64, _decisions: u64) {}

#[cfg(not(feature = "tracing"))]
pub(super) fn malformed_counter(_: &StoreError, _: Option<&Demand<'_>>) {}

#[cfg(not(feature = "tracing"))]
pub(super) fn script_failed(_: &StoreError) {}
