//! The alerts of the configuration: too many requests denied, decisions too slow.
//!
//! Owns when alerts are evaluated and what is logged. The evaluation itself is in `evaluator`,
//! which has no clock of its own.

mod evaluator;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

pub(crate) use self::evaluator::AlertState;
use tollgate_gate::Gate;

use self::evaluator::{AlertEvaluator, AlertSample};
use crate::listen::ShutdownSignal;

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
        let metrics = gate.metrics();
        let sample = AlertSample {
            at: gate.now(),
            outcomes: metrics.outcomes(),
            durations: metrics.durations(),
        };

        let monitoring = &gate.active().config.monitoring;
        let changed = self.evaluator.lock().evaluate(sample, monitoring);
        changed.iter().for_each(log_change);
    }
}

/// Evaluates the alerts until the server shuts down.
pub(crate) async fn watch(gate: Arc<Gate>, alerts: Arc<Alerts>, mut shutdown: ShutdownSignal) {
    alerts.evaluate(&gate);
    while shutdown.pause(INTERVAL).await {
        alerts.evaluate(&gate);
    }
}

/// Logs that an alert started firing or was resolved, once each.
fn log_change(state: &AlertState) {
    let (alert, value) = (state.alert.as_str(), state.value.unwrap_or_default());
    let (limit, threshold) = (state.limit.as_deref(), state.threshold);

    if state.since.is_some() {
        let problem = state.alert.problem();
        tracing::warn!(alert, limit, value, threshold, "alert firing: {problem}");
    } else {
        tracing::info!(alert, limit, value, threshold, "alert resolved");
    }
}
