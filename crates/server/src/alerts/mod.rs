//! The alerts of the configuration: too many requests refused, decisions too slow.
//!
//! Owns when they are looked at, and what is logged about them. What is judged is in `judge`, which
//! knows no clock.

mod evaluator;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

pub(crate) use self::evaluator::{Alert, AlertState};
use self::evaluator::{Bounds, Change, Judge, Sample};
use crate::gate::Gate;
use crate::listen::{ShutdownPhase, ShutdownSignal};

/// How often to look.
const EVERY: Duration = Duration::from_secs(2);

/// How each alert stands.
#[derive(Debug, Default)]
pub(crate) struct Alerts {
    judge: Mutex<Judge>,
}

impl Alerts {
    /// Every alert that is watched, firing or not.
    pub(crate) fn standing(&self) -> Vec<AlertState> {
        self.judge.lock().standing().cloned().collect()
    }

    fn look(&self, gate: &Gate) {
        let running = gate.active();
        let monitoring = &running.config.monitoring;
        let bounds = Bounds {
            deny_ratio: monitoring.deny_ratio,
            latency_p99: monitoring.latency_p99,
        };
        let meters = gate.metrics();
        let sample = Sample {
            at: gate.now(),
            said: meters.outcomes(),
            durations: meters.durations(),
        };
        let changes = self.judge.lock().look(sample, bounds);
        changes.iter().for_each(tell);
    }
}

/// Looks at the alerts until the server stops.
pub(crate) async fn watch(gate: Arc<Gate>, alerts: Arc<Alerts>, mut stop: ShutdownSignal) {
    loop {
        alerts.look(&gate);
        tokio::select! {
            () = stop.reached(ShutdownPhase::Draining) => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// Says that an alert begins to fire, or that it is over: once each.
fn tell(change: &Change) {
    let (Change::Fires(standing) | Change::Resolves(standing)) = change;
    let AlertState {
        alert,
        limit,
        value,
        bound,
        ..
    } = standing;
    let (alert, limit, value) = (alert.as_str(), &**limit, value.unwrap_or_default());
    match (change, standing.alert) {
        (Change::Fires(_), Alert::DenyRatio) => {
            tracing::warn!(
                alert,
                limit,
                value,
                bound,
                "alert: a limit refuses too many of its requests"
            );
        }
        (Change::Fires(_), Alert::LatencyP99) => {
            tracing::warn!(
                alert,
                value,
                bound,
                "alert: one decision in a hundred takes too long, in seconds"
            );
        }
        (Change::Resolves(_), _) => tracing::info!(alert, limit, value, bound, "the alert is over"),
    }
}
