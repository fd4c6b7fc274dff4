//! What a layer observes over time to detect mistakes and outages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use http::Extensions;
use tollgate::Decision;

use super::Warning;
use crate::policy::LayerPolicy;
use crate::rejection::RejectionCause;

/// How many requests of a layer are inspected for mistakes. A layer that is set up wrongly shows it
/// with the first requests.
const INSPECTED_REQUESTS: u32 = 256;
/// How many layers may be dropped after a single request before TG001 is logged.
const SINGLE_USE_LAYERS: u32 = 32;

/// The number of layers in this process that were dropped after a single request.
static DROPPED_AFTER_ONE_REQUEST: AtomicU32 = AtomicU32::new(0);

/// What one layer has observed. Shared by the layer's clones.
#[derive(Debug, Default)]
pub(crate) struct LayerMonitor {
    /// Requests so far, at most [`INSPECTED_REQUESTS`].
    requests: AtomicU32,
    /// Whether TG003 has been logged.
    has_warned_twice_applied: AtomicBool,
    /// Whether a misconfiguration has been logged.
    has_logged_misconfiguration: AtomicBool,
    /// Whether the last decision was degraded.
    is_degraded: AtomicBool,
}

/// The layers that have admitted a request so far; an extension of the request.
#[derive(Clone)]
struct LayerHistory(Vec<Arc<LayerPolicy>>);

impl LayerMonitor {
    /// Counts a request that has arrived.
    pub(crate) fn count_request(&self) {
        if self.requests.load(Relaxed) < INSPECTED_REQUESTS {
            self.requests.fetch_add(1, Relaxed);
        }
    }

    /// Records in the request that this layer has admitted it, and warns once if an outer layer has
    /// charged the request for the same limit.
    pub(crate) fn record_admission(&self, policy: &Arc<LayerPolicy>, extensions: &mut Extensions) {
        if self.requests.load(Relaxed) >= INSPECTED_REQUESTS {
            return;
        }

        let LayerHistory(mut layers) = extensions
            .remove()
            .unwrap_or_else(|| LayerHistory(Vec::new()));
        let shared_limit = layers.iter().find_map(|outer| outer.shared_limit(policy));
        if let Some(limit) = shared_limit
            && !self.has_warned_twice_applied.swap(true, Relaxed)
        {
            Warning::LimitAppliedTwice.log(limit);
        }

        layers.push(policy.clone());
        extensions.insert(LayerHistory(layers));
    }

    /// Logs once that the layer is set up wrongly, if that is the cause of a rejection. Clients do
    /// not see the reason.
    pub(crate) fn record_rejection(&self, cause: &RejectionCause) {
        if let RejectionCause::Misconfigured { reason } = cause
            && !self.has_logged_misconfiguration.swap(true, Relaxed)
        {
            tracing::error!("rate limit layer rejects requests with status 500: {reason}");
        }
    }

    /// Logs when the store becomes unavailable and when it is available again.
    pub(crate) fn track_degradation(&self, decision: &Decision) {
        let is_degraded = decision.is_degraded();
        // The plain load keeps the usual case cheap; the swap makes one thread log the change.
        if self.is_degraded.load(Relaxed) == is_degraded
            || self.is_degraded.swap(is_degraded, Relaxed) == is_degraded
        {
            return;
        }

        if is_degraded {
            tracing::warn!(
                "store unavailable: rate limit layer decides by the limits' failure policies"
            );
        } else {
            tracing::info!("store available again: rate limit layer decides by the store");
        }
    }
}

impl LayerPolicy {
    /// The first limit of this layer that the other one applies too. Limits of different limiters
    /// are different, even if their names are equal.
    fn shared_limit(&self, other: &Self) -> Option<&str> {
        let mut names = self.limits.iter().map(|limit| &*limit.name);
        let is_shared = |name: &&str| other.limits.iter().any(|limit| &*limit.name == *name);
        names
            .find(is_shared)
            .filter(|_| self.limiter.is_clone_of(&other.limiter))
    }
}

impl Drop for LayerMonitor {
    fn drop(&mut self) {
        if *self.requests.get_mut() == 1
            && DROPPED_AFTER_ONE_REQUEST.fetch_add(1, Relaxed) + 1 == SINGLE_USE_LAYERS
        {
            Warning::LayerPerRequest.log("many layers served one request each");
        }
    }
}
