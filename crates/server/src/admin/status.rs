//! `GET /admin/status`: the state of the service on one page.

use std::collections::BTreeMap;

use hyper::Response;
use serde::Serialize;

use tollgate_gate::StoreState;

use super::encode::{json_ok, millis};
use super::fleet::FleetView;
use crate::alerts::AlertState;
use crate::http::Body;
use crate::reload::ReloadStatus;
use crate::service::Service;

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
    /// What the operator should know about the configuration and the store.
    warnings: Vec<String>,
    /// The replicas that share the store. All other members are about this replica.
    fleet: FleetView,
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
    /// `None` if the service does not save the counters.
    snapshot: Option<SnapshotStatus>,
}

/// The file in which the counters of the memory store are saved.
#[derive(Debug, Serialize)]
struct SnapshotStatus {
    file: String,
    /// `None` if this process has not saved it yet.
    saved_at_ms: Option<u64>,
    /// Why the last attempt failed; `None` if it succeeded.
    error: Option<String>,
}

/// The active configuration and its reloads.
#[derive(Debug, Serialize)]
struct ConfigStatus {
    /// `None` for the built-in configuration.
    file: Option<String>,
    limits: usize,
    /// Equal for replicas with the same configuration.
    fingerprint: String,
    /// When the active configuration was loaded.
    loaded_at_ms: u64,
    reloads: u64,
    /// How many reloads failed.
    failed: u64,
    /// Why the last reload failed; `None` if it succeeded.
    error: Option<ReloadErrorView>,
    /// What the last reload changed, one line for each field.
    changes: Vec<String>,
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

impl ServiceStatus {
    pub(super) fn new(service: &Service) -> Self {
        let store = service.gate.store_state();
        let alerts = service.alerts.states();

        Self {
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: millis(service.gate.now().since(service.started_at)),
            ready: service.readiness.is_ready(),
            store: StoreStatus::new(&store),
            config: ConfigStatus::new(service),
            connections: service.load.connections(),
            in_flight: service.load.in_flight(),
            shed: service.load.shed(),
            keys: store.keys,
            alerts: alerts.iter().filter_map(AlertStatus::from_firing).collect(),
            warnings: service.gate.warnings(),
            fleet: FleetView::for_status(service),
        }
    }
}

impl StoreStatus {
    fn new(store: &StoreState) -> Self {
        let health = &store.health;
        let snapshot = store.snapshot.as_ref();
        Self {
            kind: store.kind,
            up: store.is_up,
            degraded: health.degraded,
            degraded_since_ms: health.degraded_since.map(millis),
            degraded_for_ms: millis(health.degraded_for),
            errors: health.store_errors.by_kind().into(),
            snapshot: snapshot.map(|(file, state)| SnapshotStatus {
                file: file.display().to_string(),
                saved_at_ms: state.saved_at.map(millis),
                error: state.error.clone(),
            }),
        }
    }
}

impl ConfigStatus {
    fn new(service: &Service) -> Self {
        let ReloadStatus {
            active_since,
            applied,
            failed,
            last_error,
            changes,
        } = service.reloader.status();
        let file = service.reloader.file();

        Self {
            file: file.map(|file| file.display().to_string()),
            limits: service.gate.active().config.limits.len(),
            fingerprint: service.gate.active().config.fingerprint.to_string(),
            loaded_at_ms: millis(active_since),
            reloads: applied,
            failed,
            changes,
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
        Some(Self {
            alert: state.alert.as_str(),
            limit: state.limit.as_deref().map(str::to_owned),
            since_ms: millis(state.since?),
            value: state.value?,
            threshold: state.threshold,
        })
    }
}
