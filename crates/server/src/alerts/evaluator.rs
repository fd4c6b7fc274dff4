//! Judges counts over the last minute against bounds. Time and counts are arguments.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tollgate::Micros;

use crate::metrics::{DurationBuckets, OutcomeCounts, exact};

/// How far back to look.
const SPAN: Micros = Micros::from_secs(60);
/// The most samples to keep, should someone look more often than every second.
const SAMPLES_MAX: usize = 64;
/// Fewer requests than these say nothing about a ratio.
const REQUESTS_MIN: u64 = 20;
/// Fewer decisions than these say nothing about one in a hundred.
const DECISIONS_MIN: u64 = 100;

/// What may not be passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    pub(super) deny_ratio: Option<f64>,
    pub(super) latency_p99: Option<Duration>,
}

/// What was counted up to a moment.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) at: Micros,
    pub(super) said: BTreeMap<Arc<str>, OutcomeCounts>,
    pub(super) durations: DurationBuckets,
}

/// What an alert is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alert {
    /// The part of a limit's requests that is refused.
    DenyRatio,
    /// The time within which 99 of 100 decisions are made, in seconds.
    LatencyP99,
}

impl Alert {
    /// The word used in configurations and metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::DenyRatio => "deny_ratio",
            Self::LatencyP99 => "latency_p99",
        }
    }
}

/// How an alert stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlertState {
    pub(crate) alert: Alert,
    /// The limit it is about; empty when it is about all.
    pub(crate) limit: Arc<str>,
    /// What was found; nothing when there was too little to judge.
    pub(crate) value: Option<f64>,
    pub(crate) bound: f64,
    /// When it began to fire, if it does.
    pub(crate) since: Option<Micros>,
}

/// An alert begins to fire, or is over.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Fires(AlertState),
    Resolves(AlertState),
}

/// Remembers a minute of counts and how the alerts stood.
#[derive(Debug, Default)]
pub(super) struct Judge {
    samples: VecDeque<Sample>,
    standing: BTreeMap<(Alert, Arc<str>), AlertState>,
}

impl Judge {
    /// Every alert that is watched.
    pub(super) fn standing(&self) -> impl Iterator<Item = &AlertState> {
        self.standing.values()
    }

    /// Takes a sample and judges; says what has changed.
    pub(super) fn look(&mut self, sample: Sample, bounds: Bounds) -> Vec<Change> {
        let now = sample.at;
        self.keep(sample);
        let mut before = std::mem::take(&mut self.standing);
        let mut changes = Vec::new();
        for mut standing in self.judged(bounds) {
            let name = (standing.alert, standing.limit.clone());
            let was = before.remove(&name).and_then(|before| before.since);
            let fires = standing
                .value
                .is_some_and(|value| standing.alert.is_passed(value, standing.bound));
            standing.since = fires.then(|| was.unwrap_or(now));
            match (was, fires) {
                (None, true) => changes.push(Change::Fires(standing.clone())),
                (Some(_), false) => changes.push(Change::Resolves(standing.clone())),
                _ => {}
            }
            self.standing.insert(name, standing);
        }
        // What nobody watches any more is over too.
        let gone = before
            .into_values()
            .filter(|standing| standing.since.is_some());
        changes.extend(gone.map(|standing| {
            Change::Resolves(AlertState {
                since: None,
                ..standing
            })
        }));
        changes
    }

    /// Keeps the sample, and of the old ones only the youngest that is a whole span old.
    fn keep(&mut self, sample: Sample) {
        let now = sample.at;
        self.samples.push_back(sample);
        let is_old = |sample: &Sample| now.since(sample.at) >= SPAN;
        while self.samples.len() > SAMPLES_MAX || self.samples.get(1).is_some_and(is_old) {
            self.samples.pop_front();
        }
    }

    fn judged(&self, bounds: Bounds) -> Vec<AlertState> {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Vec::new();
        };
        let mut judged = Vec::new();
        if let Some(bound) = bounds.deny_ratio {
            // About a limit that was never asked there is nothing to say.
            let asked = last.said.iter().filter(|(_, said)| said.total() > 0);
            judged.extend(asked.map(|(limit, said)| {
                let said = said.since(&first.said.get(limit).copied().unwrap_or_default());
                let enough = said.total() >= REQUESTS_MIN;
                let value = enough.then(|| exact(said.denied) / exact(said.total()));
                AlertState {
                    alert: Alert::DenyRatio,
                    limit: limit.clone(),
                    value,
                    bound,
                    since: None,
                }
            }));
        }
        if let Some(bound) = bounds.latency_p99 {
            let durations = last.durations.since(&first.durations);
            let value = (durations.total() >= DECISIONS_MIN).then(|| durations.p99_seconds());
            let (limit, bound) = (Arc::from(""), bound.as_secs_f64());
            judged.push(AlertState {
                alert: Alert::LatencyP99,
                limit,
                value,
                bound,
                since: None,
            });
        }
        judged
    }
}

impl Alert {
    /// A ratio that is reached is too much; a time must be passed.
    fn is_passed(self, value: f64, bound: f64) -> bool {
        match self {
            Self::DenyRatio => value >= bound,
            Self::LatencyP99 => value > bound,
        }
    }
}

#[cfg(test)]
mod tests;
