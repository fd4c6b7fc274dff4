//! How the service is at this moment: its status, the bounds of its alerts, and who is refused
//! most.

use hyper::body::Bytes;
use serde::Serialize;

use super::super::keys::PartAnswer;
use super::super::{millis, status};
use super::stream;
use crate::gate::ActiveConfig;
use crate::metrics::DeniedKey;
use crate::serve::Service;

/// How many of those who are refused most are told.
const REFUSED_MAX: usize = 20;

/// What is told at once when it changes, and not only with the next sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    is_up: bool,
    is_degraded: bool,
    /// Configurations put in force so far.
    pub(super) reloads: u64,
    refused_reloads: u64,
}

impl State {
    pub(super) fn of(service: &Service) -> Self {
        let running = service.gate.active();
        let reloads = service.reloader.reloads();
        Self {
            is_up: running.store.is_up(),
            is_degraded: running.limiter.health().degraded,
            reloads: reloads.applied,
            refused_reloads: reloads.rejected,
        }
    }
}

#[derive(Debug, Serialize)]
struct Now<'a> {
    at_ms: u64,
    status: status::Status,
    bounds: Bounds,
    refused: Vec<RefusedShown<'a>>,
}

/// From where on an alert fires.
#[derive(Debug, Serialize)]
struct Bounds {
    deny_ratio: Option<f64>,
    latency_p99_us: Option<u128>,
}

#[derive(Debug, Serialize)]
struct RefusedShown<'a> {
    /// The id of the limit.
    limit: u32,
    key: Vec<PartAnswer<'a>>,
    /// How often at most, and how much less it may have been.
    count: u64,
    error: u64,
}

pub(super) fn event(service: &Service) -> Bytes {
    let running = service.gate.active();
    let monitoring = &running.config.monitoring;
    let refused = service.gate.metrics().denied_keys().top(REFUSED_MAX);
    stream::event(
        "now",
        &Now {
            at_ms: millis(service.gate.now()),
            status: status::Status::of(service),
            bounds: Bounds {
                deny_ratio: monitoring.deny_ratio,
                latency_p99_us: monitoring.latency_p99.map(|bound| bound.as_micros()),
            },
            refused: refused
                .iter()
                .filter_map(|refused| RefusedShown::of(&running, refused))
                .collect(),
        },
    )
}

impl<'a> RefusedShown<'a> {
    /// Nothing for a key that the limits in force do not make.
    fn of(running: &'a ActiveConfig, refused: &DeniedKey) -> Option<Self> {
        let index = running
            .metrics()
            .iter()
            .position(|meter| meter.id() == refused.limit)?;
        let parts = running.selector.shown_key(index, &refused.key)?;
        Some(Self {
            limit: refused.limit,
            key: parts.into_iter().map(PartAnswer::from).collect(),
            count: refused.count,
            error: refused.error,
        })
    }
}
