//! What a layer observes over time to detect mistakes and outages.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

use http::Extensions;
use tollgate::{LimitName, Limiter};

use super::warning;
use super::{log, metrics};
use crate::rejection::RejectionCause;

/// How many requests of a layer are inspected for mistakes. A layer that is set up wrongly shows it
/// with the first requests.
const INSPECTED_REQUESTS: u32 = 256;
/// How many layers may be dropped after a single request before TG001 is logged.
const SINGLE_USE_LAYERS: u32 = 32;

/// How many settlements of a layer are repeated at a time. Each takes about a kilobyte.
const WAITING_SETTLEMENTS_MAX: usize = 10_000;

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
    /// Settlements that are being repeated, at most [`WAITING_SETTLEMENTS_MAX`].
    waiting_settlements: AtomicUsize,
    /// Whether the last settlement failed.
    has_failed_settlement: AtomicBool,
}

/// A settlement that is being repeated until the store is available.
#[derive(Debug)]
pub(crate) struct WaitingSettlement<'m> {
    monitor: &'m LayerMonitor,
}

impl Drop for WaitingSettlement<'_> {
    fn drop(&mut self) {
        self.monitor.waiting_settlements.fetch_sub(1, Relaxed);
    }
}

/// The limits that a request has been charged for so far; an extension of the request.
#[derive(Clone, Default)]
struct ChargedLimits(Vec<(Limiter, LimitName)>);

impl LayerMonitor {
    /// Counts a request that has arrived, and returns whether it is inspected.
    #[inline]
    pub(crate) fn count_request(&self) -> bool {
        let is_inspected = self.requests.load(Relaxed) < INSPECTED_REQUESTS;
        if is_inspected {
            self.requests.fetch_add(1, Relaxed);
        }
        is_inspected
    }

    /// Records in the request that it is charged for these limits, and warns once if an outer layer
    /// has charged it for one of them. Limits of different limiters are different, even if their
    /// names are equal.
    #[inline]
    pub(crate) fn record_admission<'l>(
        &self,
        limiter: &Limiter,
        limits: impl Iterator<Item = &'l LimitName>,
        extensions: &mut Extensions,
    ) {
        if self.requests.load(Relaxed) < INSPECTED_REQUESTS {
            self.inspect_admission(limiter, limits, extensions);
        }
    }

    #[cold]
    fn inspect_admission<'l>(
        &self,
        limiter: &Limiter,
        limits: impl Iterator<Item = &'l LimitName>,
        extensions: &mut Extensions,
    ) {
        let ChargedLimits(mut charged) = extensions.remove().unwrap_or_default();
        let outer = charged.len();
        for name in limits {
            let is_twice = charged[..outer]
                .iter()
                .any(|(other, charged)| charged == name && other.is_clone_of(limiter));
            if is_twice && !self.has_warned_twice_applied.swap(true, Relaxed) {
                warning::LIMIT_APPLIED_TWICE.log(name);
            }
            charged.push((limiter.clone(), *name));
        }
        extensions.insert(ChargedLimits(charged));
    }

    /// Logs once that the layer is set up wrongly, if that is the cause of a rejection. Clients do
    /// not see the reason.
    pub(crate) fn record_rejection(&self, cause: &RejectionCause) {
        if let RejectionCause::Misconfigured { reason } = cause
            && !self.has_logged_misconfiguration.swap(true, Relaxed)
        {
            log::misconfiguration(reason);
        }
    }

    /// Counts a settlement that is going to be repeated; `None` if too many are.
    pub(crate) fn wait_for_settlement(&self) -> Option<WaitingSettlement<'_>> {
        let waiting = WaitingSettlement { monitor: self };
        let before = self.waiting_settlements.fetch_add(1, Relaxed);
        (before < WAITING_SETTLEMENTS_MAX).then_some(waiting)
    }

    /// Counts settlements that failed, and logs the first of them.
    pub(crate) fn record_settlement<'l>(
        &self,
        is_confirmed: bool,
        limits: impl Iterator<Item = &'l LimitName>,
    ) {
        let has_failed = !is_confirmed;
        // The plain load keeps the usual case cheap; the swap makes one thread log the change.
        if self.has_failed_settlement.load(Relaxed) != has_failed
            && self.has_failed_settlement.swap(has_failed, Relaxed) != has_failed
        {
            log::settlements(has_failed);
        }
        if has_failed {
            metrics::count_failed_settlements(limits);
        }
    }

    /// Logs when the store becomes unavailable and when it is available again.
    #[inline]
    pub(crate) fn track_degradation(&self, is_degraded: bool) {
        // The plain load keeps the usual case cheap; the swap makes one thread log the change.
        if self.is_degraded.load(Relaxed) != is_degraded
            && self.is_degraded.swap(is_degraded, Relaxed) != is_degraded
        {
            log::degradation(is_degraded);
        }
    }
}

impl Drop for LayerMonitor {
    fn drop(&mut self) {
        if *self.requests.get_mut() == 1
            && DROPPED_AFTER_ONE_REQUEST.fetch_add(1, Relaxed) + 1 == SINGLE_USE_LAYERS
        {
            warning::LAYER_PER_REQUEST.log("many layers served one request each");
        }
    }
}
