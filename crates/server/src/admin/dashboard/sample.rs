//! Samples: how much the counters increased in about one second, encoded for the page.
//!
//! The sampler computes the difference between two snapshots of the counters. It has no clock and
//! does not know the viewers.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::body::Bytes;
use serde::Serialize;
use tollgate::Micros;
use tollgate_gate::Gate;
use tollgate_gate::metrics::{DurationBuckets, LimitCounts, LimitMetrics, OutcomeCounts, SOURCES};

use super::super::encode::{event, millis};

/// The most limits in one sample. The counts of further limits go into the next sample, so none
/// are lost.
const ROWS_MAX: usize = 256;

/// A limit, and its counts at one time.
type CountedLimit = (Arc<LimitMetrics>, LimitCounts);

/// The values of all counters at one time.
#[derive(Debug)]
pub(super) struct CounterSnapshot {
    pub(super) at: Micros,
    pub(super) limits: Vec<CountedLimit>,
    pub(super) durations: DurationBuckets,
    pub(super) is_up: bool,
    /// The duration of all degraded periods so far.
    pub(super) degraded_for: Micros,
}

/// Turns snapshots into samples. Remembers the values that samples have covered so far.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// Each limit with its counts up to the last sample that included it.
    limits: Vec<CountedLimit>,
    durations: DurationBuckets,
    degraded_for: Micros,
}

/// The `sample` event. The names are short because hundreds of samples are kept.
#[derive(Debug, Serialize)]
struct DashboardSample {
    /// The time, in milliseconds since the UNIX epoch.
    t: u64,
    /// The number of decisions.
    n: u64,
    /// The median and the 99th percentile of decision times, in microseconds.
    p50: u64,
    p99: u64,
    /// Whether every server of the store was reachable.
    up: bool,
    /// For how many milliseconds limits used their failure policies.
    degraded: u64,
    /// One row for each limit with decisions: id, allowed, denied, shadow denied, then decisions by
    /// source.
    rows: Vec<Vec<u64>>,
}

/// The `limits` event: all limits, with their counts up to the last sample.
#[derive(Debug, Serialize)]
struct LimitsEvent<'a> {
    sources: [&'static str; SOURCES.len()],
    limits: Vec<LimitTotals<'a>>,
}

#[derive(Debug, Serialize)]
struct LimitTotals<'a> {
    id: u32,
    name: &'a str,
    /// Allowed, denied, shadow denied, then decisions by source.
    counts: Vec<u64>,
}

impl CounterSnapshot {
    pub(super) fn new(gate: &Gate) -> Self {
        let store = gate.store_state();
        let metrics = gate.metrics();
        let with_counts = |limit: Arc<LimitMetrics>| {
            let counts = limit.counts();
            (limit, counts)
        };

        Self {
            at: gate.now(),
            limits: metrics.limits().into_iter().map(with_counts).collect(),
            durations: metrics.durations(),
            is_up: store.is_up,
            degraded_for: store.health.degraded_for,
        }
    }
}

impl Sampler {
    /// The increase since the last sample as a `sample` event, and before it a `limits` event if
    /// the set of limits has changed.
    pub(super) fn sample(&mut self, snapshot: &CounterSnapshot) -> (Option<Bytes>, Bytes) {
        let limits = self.update_limits(snapshot).then(|| self.limits_event());

        let mut rows = Vec::new();
        for ((limit, counts), (_, sampled)) in snapshot.limits.iter().zip(&mut self.limits) {
            if counts != sampled && rows.len() < ROWS_MAX {
                let mut row = vec![u64::from(limit.id())];
                row.extend(values(&counts.since(sampled)));
                rows.push(row);
                *sampled = *counts;
            }
        }

        let durations = snapshot.durations.since(&self.durations);
        let degraded = snapshot.degraded_for.since(self.degraded_for);
        self.durations.clone_from(&snapshot.durations);
        self.degraded_for = snapshot.degraded_for;

        let sample = DashboardSample {
            t: millis(snapshot.at),
            n: durations.total(),
            p50: micros(durations.quantile_seconds(0.5)),
            p99: micros(durations.quantile_seconds(0.99)),
            up: snapshot.is_up,
            degraded: millis(degraded),
            rows,
        };
        (limits, event("sample", &sample))
    }

    /// The `limits` event.
    pub(super) fn limits_event(&self) -> Bytes {
        let limits = self.limits.iter().map(|(limit, counts)| LimitTotals {
            id: limit.id(),
            name: limit.name(),
            counts: values(counts).collect(),
        });

        let data = LimitsEvent {
            sources: SOURCES.map(tollgate::Source::as_str),
            limits: limits.collect(),
        };
        event("limits", &data)
    }

    /// Adds new limits, with counts of zero, and removes those that are gone. Returns whether
    /// anything changed.
    fn update_limits(&mut self, snapshot: &CounterSnapshot) -> bool {
        let id = |(limit, _): &CountedLimit| limit.id();
        if snapshot
            .limits
            .iter()
            .map(id)
            .eq(self.limits.iter().map(id))
        {
            return false;
        }

        let before: HashMap<u32, LimitCounts> = self
            .limits
            .drain(..)
            .map(|(limit, counts)| (limit.id(), counts))
            .collect();
        self.limits.extend(snapshot.limits.iter().map(|(limit, _)| {
            let counts = before.get(&limit.id()).copied().unwrap_or_default();
            (limit.clone(), counts)
        }));
        true
    }
}

/// Allowed, denied, shadow denied, then decisions by source.
fn values(counts: &LimitCounts) -> impl Iterator<Item = u64> {
    let OutcomeCounts {
        allowed,
        denied,
        shadow_denied,
    } = counts.outcomes();
    [allowed, denied, shadow_denied]
        .into_iter()
        .chain(counts.by_source())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "durations are not negative, and at most a minute"
)]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

#[cfg(test)]
mod tests;
