//! The `now` event: the status of the service and the alert thresholds.

use hyper::body::Bytes;
use serde::Serialize;

use super::super::encode::{event, millis};
use super::super::status::ServiceStatus;
use crate::service::Service;

/// The state whose changes are sent without waiting for the next sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WatchedState {
    is_up: bool,
    is_degraded: bool,
    /// Successful reloads so far.
    pub(super) reloads: u64,
    /// Failed reloads so far.
    failed_reloads: u64,
}

impl WatchedState {
    pub(super) fn new(service: &Service) -> Self {
        let store = service.gate.store_state();
        let reloads = service.reloader.status();

        Self {
            is_up: store.is_up,
            is_degraded: store.health.degraded,
            reloads: reloads.applied,
            failed_reloads: reloads.failed,
        }
    }
}

/// The data of the event. Field names are JSON member names.
#[derive(Debug, Serialize)]
struct StatusEvent {
    at_ms: u64,
    status: ServiceStatus,
    thresholds: AlertThresholdsView,
}

/// The values from which alerts fire; `None` for an alert that is not configured.
#[derive(Debug, Serialize)]
struct AlertThresholdsView {
    deny_ratio: Option<f64>,
    latency_p99_us: Option<u128>,
}

/// Encodes the event from the current state of the service.
pub(super) fn encode(service: &Service) -> Bytes {
    let active = service.gate.active();
    let monitoring = &active.config.monitoring;

    let data = StatusEvent {
        at_ms: millis(service.gate.now()),
        status: ServiceStatus::new(service),
        thresholds: AlertThresholdsView {
            deny_ratio: monitoring.deny_ratio,
            latency_p99_us: monitoring
                .latency_p99
                .map(|threshold| threshold.as_micros()),
        },
    };
    event("now", &data)
}
