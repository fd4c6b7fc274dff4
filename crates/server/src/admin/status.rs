//! `GET /admin/status`: the state of the service on one page.

use std::collections::BTreeMap;

use hyper::Response;
use serde::Serialize;
use tollgate::Health;

use super::{json_ok, millis};
use crate::alerts::AlertState;
use crate::gate::ActiveConfig;
use crate::http::Body;
use crate::reload::ReloadStatus;
use crate::serve::Service;

/// The body of the response. Times are milliseconds since the UNIX epoch.
#[derive(Debug, Serialize)]
pub(super) struct ServiceStatus {
    version: &'static str,
    uptime_ms: u64,
    ready: bool,
    store: StoreStatus,
    config: ConfigStatus,
    connections: usize,
    in_flight: usize,
    /// Requests and connections rejected so far because the service was full.
    shed: u64,
    /// Counters in the memory of this process.
    keys: usize,
    /// The alerts that are firing.
    alerts: Vec<AlertStatus>,
}

/// The state of the store.
#[derive(Debug, Serialize)]
struct StoreStatus {
    kind: &'static str,
    up: bool,
    degraded: bool,
    degraded_since_ms: Option<u64>,
    /// The duration of all degraded periods together.
    degraded_for_ms: u64,
    /// Failed store calls by kind.
    errors: BTreeMap<&'static str, u64>,
}

/// The active configuration and its reloads.
#[derive(Debug, Serialize)]
struct ConfigStatus {
    /// `None` for the built-in configuration.
    file: Option<String>,
    limits: usize,
    /// When the active configuration was loaded.
    loaded_at_ms: u64,
    reloads: u64,
    /// How many reloads failed.
    failed: u64,
    /// Why the last reload failed; `None` if it succeeded.
    error: Option<ReloadErrorView>,
}

/// A failed reload.
#[derive(Debug, Serialize)]
struct ReloadErrorView {
    at_ms: u64,
    message: String,
}

/// A firing alert.
#[derive(Debug, Serialize)]
struct AlertStatus {
    alert: &'static str,
    /// Absent for an alert about all limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    since_ms: u64,
    value: f64,
    /// The threshold from which the alert fires.
    threshold: f64,
}

pub(super) fn respond(service: &Service) -> Response<Body> {
    json_ok(&ServiceStatus::new(service))
}

/// Counters in the memory of this process: those of a memory store and of `local` limits.
pub(super) fn key_count(active: &ActiveConfig) -> usize {
    active.store.keys() + active.limiter.local_keys()
}

impl ServiceStatus {
    pub(super) fn new(service: &Service) -> Self {
        let active = service.gate.active();
        let alerts = service.alerts.states();

        Self {
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: millis(service.gate.now().since(service.started_at)),
            ready: service.readiness.is_ready(),
            store: StoreStatus::new(&active),
            config: ConfigStatus::new(service, &active),
            connections: service.load.connections(),
            in_flight: service.load.in_flight(),
            shed: service.load.shed(),
            keys: key_count(&active),
            alerts: alerts.iter().filter_map(AlertStatus::from_firing).collect(),
        }
    }
}

impl StoreStatus {
    fn new(active: &ActiveConfig) -> Self {
        let Health {
            degraded,
            degraded_since,
            degraded_for,
            store_errors,
            ..
        } = active.limiter.health();

        Self {
            kind: active.store.kind(),
            up: active.store.is_up(),
            degraded,
            degraded_since_ms: degraded_since.map(millis),
            degraded_for_ms: millis(degraded_for),
            errors: store_errors.by_kind().into_iter().collect(),
        }
    }
}

impl ConfigStatus {
    fn new(service: &Service, active: &ActiveConfig) -> Self {
        let ReloadStatus {
            active_since,
            applied,
            failed,
            last_error,
        } = service.reloader.status();
        let file = service.reloader.file();

        Self {
            file: file.map(|file| file.display().to_string()),
            limits: active.config.limits.len(),
            loaded_at_ms: millis(active_since),
            reloads: applied,
            failed,
            error: last_error.map(|(at, message)| ReloadErrorView {
                at_ms: millis(at),
                message,
            }),
        }
    }
}

impl AlertStatus {
    /// `None` if the alert is not firing.
    fn from_firing(state: &AlertState) -> Option<Self> {
        let AlertState {
            alert,
            limit,
            value,
            threshold,
            since,
        } = state;

        Some(Self {
            alert: alert.as_str(),
            limit: Some(limit.to_string()).filter(|limit| !limit.is_empty()),
            since_ms: millis((*since)?),
            value: (*value)?,
            threshold: *threshold,
        })
    }
}
