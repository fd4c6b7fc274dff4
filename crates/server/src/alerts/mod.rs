//! The alerts of the configuration: too many requests denied, decisions too slow.
//!
//! Owns when alerts are evaluated and what is logged. The evaluation itself is in `evaluator`,
//! which has no clock of its own.

mod evaluator;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use self::evaluator::{AlertChange, AlertEvaluator, AlertSample, AlertThresholds};
pub(crate) use self::evaluator::{AlertKind, AlertState};
use crate::gate::Gate;
use crate::listen::{ShutdownPhase, ShutdownSignal};

/// How often the alerts are evaluated.
const INTERVAL: Duration = Duration::from_secs(2);

/// The state of every configured alert.
#[derive(Debug, Default)]
pub(crate) struct Alerts {
    evaluator: Mutex<AlertEvaluator>,
}

impl Alerts {
    /// Every configured alert, firing or not.
    pub(crate) fn states(&self) -> Vec<AlertState> {
        self.evaluator.lock().states().cloned().collect()
    }

    fn evaluate(&self, gate: &Gate) {
        let active = gate.active();
        let monitoring = &active.config.monitoring;
        let thresholds = AlertThresholds {
            deny_ratio: monitoring.deny_ratio,
            latency_p99: monitoring.latency_p99,
        };

        let metrics = gate.metrics();
        let sample = AlertSample {
            at: gate.now(),
            outcomes: metrics.outcomes(),
            durations: metrics.durations(),
        };

        let changes = self.evaluator.lock().evaluate(sample, thresholds);
        changes.iter().for_each(log_change);
    }
}

/// Evaluates the alerts until the server shuts down.
pub(crate) async fn watch(gate: Arc<Gate>, alerts: Arc<Alerts>, mut shutdown: ShutdownSignal) {
    loop {
        alerts.evaluate(&gate);
        tokio::select! {
            () = shutdown.wait_for(ShutdownPhase::Draining) => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// Logs that an alert started firing or was resolved, once each.
fn log_change(change: &AlertChange) {
    let (AlertChange::Fired(state) | AlertChange::Resolved(state)) = change;
    let AlertState {
        alert,
        limit,
        value,
        threshold,
        ..
    } = state;
    let (alert, limit, value) = (alert.as_str(), &**limit, value.unwrap_or_default());

    match (change, state.alert) {
        (AlertChange::Fired(_), AlertKind::DenyRatio) => {
            tracing::warn!(
                alert,
                limit,
                value,
                threshold,
                "alert firing: deny ratio too high"
            );
        }
        (AlertChange::Fired(_), AlertKind::LatencyP99) => {
            tracing::warn!(
                alert,
                value,
                threshold,
                "alert firing: p99 of decision times too high, in seconds"
            );
        }
        (AlertChange::Resolved(_), _) => {
            tracing::info!(alert, limit, value, threshold, "alert resolved");
        }
    }
}
