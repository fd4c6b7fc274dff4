//! The alerts of the configuration: too many requests refused, decisions too slow.
//!
//! Owns when they are looked at, and what is logged about them. What is judged is in `judge`, which
//! knows no clock.

mod judge;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

pub(crate) use self::judge::{Alert, Standing};
use self::judge::{Bounds, Change, Judge, Sample};
use crate::gate::Gate;
use crate::listen::{Phase, Stop};

/// How often to look.
const EVERY: Duration = Duration::from_secs(2);

/// How each alert stands.
#[derive(Debug, Default)]
pub(crate) struct Alerts {
    judge: Mutex<Judge>,
}

impl Alerts {
    /// Every alert that is watched, firing or not.
    pub(crate) fn standing(&self) -> Vec<Standing> {
        self.judge.lock().standing().cloned().collect()
    }

    fn look(&self, gate: &Gate) {
        let running = gate.running();
        let monitoring = &running.config.monitoring;
        let bounds = Bounds {
            deny_ratio: monitoring.deny_ratio,
            latency_p99: monitoring.latency_p99,
        };
        let meters = gate.meters();
        let sample = Sample {
            at: gate.now(),
            said: meters.said(),
            durations: meters.durations(),
        };
        let changes = self.judge.lock().look(sample, bounds);
        changes.iter().for_each(tell);
    }
}

/// Looks at the alerts until the server stops.
pub(crate) async fn watch(gate: Arc<Gate>, alerts: Arc<Alerts>, mut stop: Stop) {
    loop {
        alerts.look(&gate);
        tokio::select! {
            () = stop.reached(Phase::Leaving) => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// Says that an alert begins to fire, or that it is over: once each.
fn tell(change: &Change) {
    let (Change::Fires(standing) | Change::Resolves(standing)) = change;
    let Standing {
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
