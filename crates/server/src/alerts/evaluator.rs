//! Evaluates alerts over the counts of the last minute. Time and counts are arguments.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tollgate::Micros;
use tollgate_gate::metrics::{DurationBuckets, OutcomeCounts, seconds, to_f64};
use tollgate_rules::config::MonitoringConfig;

/// The period that alerts are evaluated over.
const PERIOD: Micros = Micros::from_secs(60);
/// The most samples to keep; bounds memory should samples come faster than once a second.
const SAMPLES_MAX: usize = 64;
/// With fewer decisions of a limit, its deny ratio is not evaluated.
const REQUESTS_MIN: u64 = 20;
/// With fewer decisions, the 99th percentile is not evaluated.
const DECISIONS_MIN: u64 = 100;

/// The counters at one moment.
#[derive(Debug)]
pub(super) struct AlertSample {
    pub(super) at: Micros,
    pub(super) outcomes: BTreeMap<Arc<str>, OutcomeCounts>,
    pub(super) durations: DurationBuckets,
    /// Since when limits use their failure policies.
    pub(super) degraded_since: Option<Micros>,
    /// Since when replicas have different configurations.
    pub(super) differ_since: Option<Micros>,
    /// Counters of limited clients that were evicted so far, by limit. Without a name, those of
    /// other limits, or all keys that the servers of a store evicted.
    pub(super) evictions: BTreeMap<Option<Arc<str>>, u64>,
}

/// What an alert watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AlertKind {
    /// The denied share of a limit's requests, between 0 and 1.
    DenyRatio,
    /// The 99th percentile of decision times, in seconds.
    LatencyP99,
    /// For how long limits have used their failure policies, in seconds.
    DegradedFor,
    /// Evicted counters of limited clients.
    Evictions,
    /// For how long replicas have had different configurations, in seconds.
    ConfigurationsDiffer,
}

impl AlertKind {
    /// The name used in configurations and metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::DenyRatio => "deny_ratio",
            Self::LatencyP99 => "latency_p99",
            Self::DegradedFor => "degraded_for",
            Self::Evictions => "evictions",
            Self::ConfigurationsDiffer => "configurations_differ",
        }
    }

    /// What is wrong while the alert fires.
    pub(super) const fn problem(self) -> &'static str {
        match self {
            Self::DenyRatio => "deny ratio too high",
            Self::LatencyP99 => "p99 of decision times too high, in seconds",
            Self::DegradedFor => "limits have used their failure policies for too long, in seconds",
            Self::Evictions => "counters of limited clients were evicted, in the last minute",
            Self::ConfigurationsDiffer => {
                "replicas have had different configurations for too long, in seconds"
            }
        }
    }

    /// A latency fires when it exceeds its threshold, everything else when it reaches it.
    fn is_exceeded(self, value: f64, threshold: f64) -> bool {
        match self {
            Self::LatencyP99 => value > threshold,
            _ => value >= threshold,
        }
    }
}

/// The state of an alert.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlertState {
    pub(crate) alert: AlertKind,
    /// The limit it watches; none when it watches all of them.
    pub(crate) limit: Option<Arc<str>>,
    /// The measured value; none when there were too few decisions.
    pub(crate) value: Option<f64>,
    pub(crate) threshold: f64,
    /// When it started to fire; none when it does not fire.
    pub(crate) since: Option<Micros>,
}

/// Keeps a minute of samples and the state of every alert.
#[derive(Debug, Default)]
pub(super) struct AlertEvaluator {
    samples: VecDeque<AlertSample>,
    states: BTreeMap<(AlertKind, Option<Arc<str>>), AlertState>,
}

impl AlertEvaluator {
    /// Every configured alert, firing or not.
    pub(super) fn states(&self) -> impl Iterator<Item = &AlertState> {
        self.states.values()
    }

    /// Adds a sample and evaluates the alerts. Returns those that started to fire or were resolved.
    pub(super) fn evaluate(
        &mut self,
        sample: AlertSample,
        thresholds: &MonitoringConfig,
    ) -> Vec<AlertState> {
        let now = sample.at;
        self.add_sample(sample);

        let mut before = std::mem::take(&mut self.states);
        let mut changed = Vec::new();
        for mut state in self.measure(thresholds) {
            let id = (state.alert, state.limit.clone());
            let fired_since = before.remove(&id).and_then(|before| before.since);
            let (alert, threshold) = (state.alert, state.threshold);
            let is_firing = state
                .value
                .is_some_and(|value| alert.is_exceeded(value, threshold));

            state.since = is_firing.then(|| fired_since.unwrap_or(now));
            if state.since != fired_since {
                changed.push(state.clone());
            }
            self.states.insert(id, state);
        }

        // An alert that is no longer configured, or whose limit was removed, is resolved too.
        let removed = before.into_values().filter(|state| state.since.is_some());
        changed.extend(removed.map(|state| AlertState {
            since: None,
            ..state
        }));
        changed
    }

    /// Adds a sample. Of the samples older than the period, only the newest is kept.
    fn add_sample(&mut self, sample: AlertSample) {
        let now = sample.at;
        self.samples.push_back(sample);

        let is_old = |sample: &AlertSample| now.since(sample.at) >= PERIOD;
        while self.samples.len() > SAMPLES_MAX || self.samples.get(1).is_some_and(is_old) {
            self.samples.pop_front();
        }
    }

    /// The current value of every configured alert, not yet compared with its threshold.
    fn measure(&self, thresholds: &MonitoringConfig) -> Vec<AlertState> {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Vec::new();
        };
        let mut states = Vec::new();
        let mut push = |alert, limit: Option<&Arc<str>>, value, threshold| {
            states.push(AlertState {
                alert,
                limit: limit.cloned(),
                value,
                threshold,
                since: None,
            });
        };

        // What has lasted until now needs no earlier sample.
        let (degraded, differ) = (last.degraded_since, last.differ_since);
        for (alert, since, threshold) in [
            (AlertKind::DegradedFor, degraded, thresholds.degraded_for),
            (
                AlertKind::ConfigurationsDiffer,
                differ,
                thresholds.configurations_differ,
            ),
        ] {
            let lasted = since.map_or(Micros::ZERO, |since| last.at.since(since));
            if let Some(threshold) = threshold {
                push(alert, None, Some(seconds(lasted)), threshold.as_secs_f64());
            }
        }
        if let Some(threshold) = thresholds.deny_ratio {
            // A limit without any decision has no state.
            let decided = last
                .outcomes
                .iter()
                .filter(|(_, outcomes)| outcomes.total() > 0);
            for (limit, outcomes) in decided {
                let before = first.outcomes.get(limit).copied().unwrap_or_default();
                let recent = outcomes.since(&before);
                let ratio = (recent.total() >= REQUESTS_MIN)
                    .then(|| to_f64(recent.denied) / to_f64(recent.total()));
                push(AlertKind::DenyRatio, Some(limit), ratio, threshold);
            }
        }
        if let Some(threshold) = thresholds.latency_p99 {
            let durations = last.durations.since(&first.durations);
            let p99 =
                (durations.total() >= DECISIONS_MIN).then(|| durations.quantile_seconds(0.99));
            push(AlertKind::LatencyP99, None, p99, threshold.as_secs_f64());
        }
        if let Some(threshold) = thresholds.evictions {
            for (limit, evicted) in &last.evictions {
                let mut samples = self.samples.iter();
                let before = samples.find_map(|sample| sample.evictions.get(limit));
                let recent = evicted.saturating_sub(before.copied().unwrap_or_default());
                let (alert, threshold) = (AlertKind::Evictions, to_f64(threshold));
                push(alert, limit.as_ref(), Some(to_f64(recent)), threshold);
            }
        }
        states
    }
}

#[cfg(test)]
mod tests;
