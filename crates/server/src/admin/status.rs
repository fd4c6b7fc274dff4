//! How the service is: one page for whoever is called at night.

use std::collections::BTreeMap;

use hyper::Response;
use serde::Serialize;
use tollgate::Health;

use super::{millis, shown};
use crate::alerts::AlertState;
use crate::gate::ActiveConfig;
use crate::http::Body;
use crate::reload::ReloadStatus;
use crate::serve::Service;

#[derive(Debug, Serialize)]
pub(super) struct Status {
    version: &'static str,
    uptime_ms: u64,
    ready: bool,
    store: StoreStatus,
    config: ConfigStatus,
    connections: usize,
    in_flight: usize,
    /// Requests and connections turned away so far.
    shed: u64,
    /// Counters kept in this process.
    keys: usize,
    /// Those that fire.
    alerts: Vec<AlertStatus>,
}

#[derive(Debug, Serialize)]
struct StoreStatus {
    kind: &'static str,
    up: bool,
    degraded: bool,
    degraded_since_ms: Option<u64>,
    /// All outages together.
    degraded_for_ms: u64,
    errors: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
struct ConfigStatus {
    /// None when the built-in configuration is in force.
    file: Option<String>,
    limits: usize,
    /// When the one in force was put there.
    loaded_at_ms: u64,
    reloads: u64,
    refused: u64,
    /// Why the last one was refused, if it was.
    error: Option<ReloadError>,
}

#[derive(Debug, Serialize)]
struct ReloadError {
    at_ms: u64,
    message: String,
}

#[derive(Debug, Serialize)]
struct AlertStatus {
    alert: &'static str,
    /// Left out when it is about all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    since_ms: u64,
    value: f64,
    bound: f64,
}

pub(super) fn answer(service: &Service) -> Response<Body> {
    shown(&Status::of(service))
}

/// Counters kept in this process: those of a memory store, and those of limits that are its own.
pub(super) fn keys(running: &ActiveConfig) -> usize {
    running.store.keys() + running.limiter.local_keys()
}

impl Status {
    pub(super) fn of(service: &Service) -> Self {
        let running = service.gate.active();
        let standing = service.alerts.states();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: millis(service.gate.now().since(service.since)),
            ready: service.readiness.is_ready(),
            store: StoreStatus::of(&running),
            config: ConfigStatus::of(service, &running),
            connections: service.load.connections(),
            in_flight: service.load.in_flight(),
            shed: service.load.shed(),
            keys: keys(&running),
            alerts: standing.iter().filter_map(AlertStatus::of).collect(),
        }
    }
}

impl StoreStatus {
    fn of(running: &ActiveConfig) -> Self {
        let Health {
            degraded,
            degraded_since,
            degraded_for,
            store_errors,
            ..
        } = running.limiter.health();
        Self {
            kind: running.store.kind(),
            up: running.store.is_up(),
            degraded,
            degraded_since_ms: degraded_since.map(millis),
            degraded_for_ms: millis(degraded_for),
            errors: store_errors.by_kind().into_iter().collect(),
        }
    }
}

impl ConfigStatus {
    fn of(service: &Service, running: &ActiveConfig) -> Self {
        let ReloadStatus {
            active_since,
            applied,
            rejected,
            last_error,
        } = service.reloader.reloads();
        Self {
            file: service
                .reloader
                .file()
                .map(|file| file.display().to_string()),
            limits: running.config.limits.len(),
            loaded_at_ms: millis(active_since),
            reloads: applied,
            refused: rejected,
            error: last_error.map(|(at, message)| ReloadError {
                at_ms: millis(at),
                message,
            }),
        }
    }
}

impl AlertStatus {
    /// Nothing when it does not fire.
    fn of(standing: &AlertState) -> Option<Self> {
        let AlertState {
            alert,
            limit,
            value,
            bound,
            since,
        } = standing;
        Some(Self {
            alert: alert.as_str(),
            limit: Some(limit.to_string()).filter(|limit| !limit.is_empty()),
            since_ms: millis((*since)?),
            value: (*value)?,
            bound: *bound,
        })
    }
}
