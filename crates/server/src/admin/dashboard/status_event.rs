//! The `now` event: the status of the service, the alert thresholds and the most denied keys.

use hyper::body::Bytes;
use serde::Serialize;

use tollgate_gate::ActiveConfig;
use tollgate_gate::metrics::{DenialCount, DeniedKey};

use super::super::encode::millis;
use super::super::keys::KeyPartView;
use super::super::status::ServiceStatus;
use super::event;
use crate::service::Service;

/// The most keys in an event.
const DENIED_KEYS_MAX: usize = 20;

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
struct StatusEvent<'a> {
    at_ms: u64,
    status: ServiceStatus,
    thresholds: AlertThresholdsView,
    denied_keys: Vec<DeniedKeyView<'a>>,
}

/// The values from which alerts fire; `None` for an alert that is not configured.
#[derive(Debug, Serialize)]
struct AlertThresholdsView {
    deny_ratio: Option<f64>,
    latency_p99_us: Option<u128>,
}

/// A key that was denied often.
#[derive(Debug, Serialize)]
struct DeniedKeyView<'a> {
    /// The id of the limit, as in the `limits` event.
    limit: u32,
    key: Vec<KeyPartView<'a>>,
    #[serde(flatten)]
    denials: DenialCount,
}

/// Encodes the event from the current state of the service.
pub(super) fn encode(service: &Service) -> Bytes {
    let active = service.gate.active();
    let monitoring = &active.config.monitoring;
    let denied_keys = service.gate.metrics().denied_keys().top(DENIED_KEYS_MAX);

    let data = StatusEvent {
        at_ms: millis(service.gate.now()),
        status: ServiceStatus::new(service),
        thresholds: AlertThresholdsView {
            deny_ratio: monitoring.deny_ratio,
            latency_p99_us: monitoring
                .latency_p99
                .map(|threshold| threshold.as_micros()),
        },
        denied_keys: denied_keys
            .iter()
            .filter_map(|denied| DeniedKeyView::new(&active, denied))
            .collect(),
    };
    event::encode("now", &data)
}

impl<'a> DeniedKeyView<'a> {
    /// `None` for a key of a limit that is no longer configured, or has another key recipe now.
    fn new(active: &'a ActiveConfig, denied: &DeniedKey) -> Option<Self> {
        let index = active
            .metrics()
            .iter()
            .position(|limit| limit.id() == denied.limit)?;
        let parts = active.selector.display_key(index, &denied.key)?;

        Some(Self {
            limit: denied.limit,
            key: parts.into_iter().map(KeyPartView::from).collect(),
            denials: denied.denials,
        })
    }
}
