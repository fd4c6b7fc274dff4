//! The log lines of an outage: one when it begins, one when it ends. Without the feature `tracing`
//! there are none.

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
