//! The alerts of the configuration: too many requests denied, decisions too slow, a store that is
//! unavailable for too long, evicted counters, replicas that differ, keys near the end of a limit.
//!
//! Owns when alerts are evaluated and what is logged. The evaluation itself is in `evaluator`,
//! which has no clock of its own; `webhook` delivers what is logged to a URL as well.

mod evaluator;
mod notice;
mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::Micros;
use tollgate_gate::Gate;

pub(crate) use self::evaluator::AlertState;
use self::evaluator::{AlertEvaluator, AlertSample};
use self::notice::AlertNotice;
use self::webhook::WebhookQueue;
use crate::fleet::{FindingKind, Fleet};
use crate::listen::ShutdownSignal;

/// How often the alerts are evaluated.
const INTERVAL: Duration = Duration::from_secs(2);
/// The most lines about keys near their limits that are logged at one evaluation.
const USAGE_LINES_MAX: usize = 10;

/// The state of every configured alert.
#[derive(Debug, Default)]
pub(crate) struct Alerts {
    state: Mutex<AlertsState>,
    webhook: WebhookQueue,
}

#[derive(Debug, Default)]
struct AlertsState {
    evaluator: AlertEvaluator,
    /// Since when replicas have different configurations.
    differ_since: Option<Micros>,
    /// Keys that were near the end of a limit so far, by limit and percent.
    usage: BTreeMap<(Arc<str>, u8), u64>,
}

impl Alerts {
    /// Every configured alert, firing or not.
    pub(crate) fn states(&self) -> Vec<AlertState> {
        self.state.lock().evaluator.states().cloned().collect()
    }

    /// How many keys were near the end of each limit so far, by the percent they had used.
    pub(crate) fn usage(&self) -> BTreeMap<(Arc<str>, u8), u64> {
        self.state.lock().usage.clone()
    }

    /// What became of the alerts for the webhook, by the label `result`.
    pub(crate) fn deliveries(&self) -> [(&'static str, u64); 4] {
        self.webhook.results()
    }

    fn evaluate(&self, gate: &Gate, fleet: &Fleet) {
        let now = gate.now();
        let sample = self.sample(gate, fleet, now);
        let active = gate.active();
        let monitoring = &active.config.monitoring;
        let changed = self.state.lock().evaluator.evaluate(sample, monitoring);

        let replica = fleet.name();
        for state in &changed {
            log_change(state);
            if monitoring.webhook.is_some() {
                self.webhook
                    .push(AlertNotice::from_change(state, now, &replica));
            }
        }
        self.report_usage(gate, &replica);
    }

    fn sample(&self, gate: &Gate, fleet: &Fleet, now: Micros) -> AlertSample {
        let metrics = gate.metrics();
        let store = gate.store_state();
        let findings = fleet.snapshot(gate).findings;
        let is_different = |kind| kind == FindingKind::ConfigurationsDiffer;
        let differs = findings.iter().any(|finding| is_different(finding.kind));

        let mut state = self.state.lock();
        let differ_since = differs.then(|| state.differ_since.unwrap_or(now));
        state.differ_since = differ_since;
        drop(state);

        let evictions = gate.evictions().into_iter().map(|(limit, evictions)| {
            let limit = limit.map(|limit| Arc::from(limit.as_str()));
            (limit, evictions.limited)
        });
        let mut evictions: BTreeMap<Option<Arc<str>>, u64> = evictions.collect();
        if store.kind != "memory" {
            evictions.insert(None, store.evicted_keys);
        }

        AlertSample {
            at: now,
            outcomes: metrics.outcomes(),
            durations: metrics.durations(),
            degraded_since: store.health.degraded_since,
            differ_since,
            evictions,
        }
    }

    /// Reports the keys that have used most of a limit since the last time: in metrics, to the
    /// webhook, and without the key in the log.
    fn report_usage(&self, gate: &Gate, replica: &str) {
        let active = gate.active();
        let reports = gate.metrics().usage().take();
        let notices = reports.iter().filter_map(|report| {
            let notice = AlertNotice::from_usage(report, &active, gate.now(), replica)?;
            Some((notice, report.percent))
        });

        let is_configured = |limit: &str| active.selector.limit(limit).is_ok();
        let mut state = self.state.lock();
        state.usage.retain(|(limit, _), _| is_configured(limit));
        drop(state);

        let mut logged = 0;
        for (notice, percent) in notices {
            let limit: Arc<str> = notice.limit.as_deref().unwrap_or_default().into();
            if logged < USAGE_LINES_MAX {
                let (alert, limit) = (notice.alert, &*limit);
                tracing::warn!(alert, limit, percent, "a key is near the end of its limit");
            }
            logged += 1;
            *self.state.lock().usage.entry((limit, percent)).or_default() += 1;
            self.webhook.push(notice);
        }
        if logged > USAGE_LINES_MAX {
            let keys = logged - USAGE_LINES_MAX;
            tracing::warn!(keys, "further keys are near the end of their limits");
        }
    }
}

/// Evaluates the alerts and delivers them until the server shuts down.
pub(crate) async fn watch(
    gate: Arc<Gate>,
    alerts: Arc<Alerts>,
    fleet: Arc<Fleet>,
    mut shutdown: ShutdownSignal,
) {
    let delivery = alerts.webhook.deliver(&gate, shutdown.clone());
    let evaluation = async {
        alerts.evaluate(&gate, &fleet);
        while shutdown.pause(INTERVAL).await {
            alerts.evaluate(&gate, &fleet);
        }
    };
    tokio::join!(evaluation, delivery);
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
