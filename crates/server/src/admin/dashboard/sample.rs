//! Samples: how much the counters increased in about one second, encoded for the page.
//!
//! The sampler computes the difference between two snapshots of the counters. It has no clock and
//! does not know the viewers.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::body::Bytes;
use serde::Serialize;
use tollgate::Micros;

use super::super::millis;
use super::stream;
use crate::metrics::{DurationBuckets, LimitCounts, LimitMetrics, SOURCES};
use crate::serve::Service;

/// The most limits in one sample. The counts of further limits go into the next sample, so none
/// are lost.
const ROWS_MAX: usize = 256;

/// The values of all counters at one time.
#[derive(Debug)]
pub(super) struct CounterSnapshot {
    pub(super) at: Micros,
    pub(super) limits: Vec<(Arc<LimitMetrics>, LimitCounts)>,
    pub(super) durations: DurationBuckets,
    pub(super) is_up: bool,
    /// The duration of all degraded periods so far.
    pub(super) degraded_for: Micros,
}

/// Turns snapshots into samples. Remembers the values that samples have covered so far.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// By the id of the limit.
    limits: BTreeMap<u32, SampledLimit>,
    durations: DurationBuckets,
    degraded_for: Micros,
}

/// A limit, and its counts up to the last sample that included it.
#[derive(Debug)]
struct SampledLimit {
    limit: Arc<LimitMetrics>,
    counts: LimitCounts,
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
    rows: Vec<[u64; 4 + SOURCES.len()]>,
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
    counts: [u64; 3 + SOURCES.len()],
}

impl CounterSnapshot {
    pub(super) fn new(service: &Service) -> Self {
        let active = service.gate.active();
        let metrics = service.gate.metrics();
        let with_counts = |limit: Arc<LimitMetrics>| {
            let counts = limit.counts();
            (limit, counts)
        };

        Self {
            at: service.gate.now(),
            limits: metrics.limits().into_iter().map(with_counts).collect(),
            durations: metrics.durations(),
            is_up: active.store.is_up(),
            degraded_for: active.limiter.health().degraded_for,
        }
    }
}

impl Sampler {
    /// The increase since the last sample as a `sample` event, and before it a `limits` event if
    /// the set of limits has changed.
    pub(super) fn sample(&mut self, snapshot: &CounterSnapshot) -> (Option<Bytes>, Bytes) {
        let limits = self.update_limits(snapshot).then(|| self.limits_event());

        let mut rows = Vec::new();
        for (limit, counts) in &snapshot.limits {
            let Some(sampled) = self.limits.get_mut(&limit.id()) else {
                continue;
            };
            if *counts != sampled.counts && rows.len() < ROWS_MAX {
                rows.push(row(limit.id(), &counts.since(&sampled.counts)));
                sampled.counts = *counts;
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
            p99: micros(durations.p99_seconds()),
            up: snapshot.is_up,
            degraded: millis(degraded),
            rows,
        };
        (limits, stream::encode("sample", &sample))
    }

    /// The `limits` event.
    pub(super) fn limits_event(&self) -> Bytes {
        let limits = self.limits.values().map(|sampled| LimitTotals {
            id: sampled.limit.id(),
            name: sampled.limit.name(),
            counts: values(&sampled.counts),
        });

        let event = LimitsEvent {
            sources: SOURCES.map(tollgate::Source::as_str),
            limits: limits.collect(),
        };
        stream::encode("limits", &event)
    }

    /// Adds new limits, with counts of zero, and removes those that are gone. Returns whether
    /// anything changed.
    fn update_limits(&mut self, snapshot: &CounterSnapshot) -> bool {
        let is_known =
            |(limit, _): &(Arc<LimitMetrics>, LimitCounts)| self.limits.contains_key(&limit.id());
        if snapshot.limits.len() == self.limits.len() && snapshot.limits.iter().all(is_known) {
            return false;
        }

        let mut before = std::mem::take(&mut self.limits);
        self.limits = snapshot
            .limits
            .iter()
            .map(|(limit, _)| {
                let new = || SampledLimit {
                    limit: limit.clone(),
                    counts: LimitCounts::default(),
                };
                (limit.id(), before.remove(&limit.id()).unwrap_or_else(new))
            })
            .collect();
        true
    }
}

fn values(counts: &LimitCounts) -> [u64; 3 + SOURCES.len()] {
    let [store, lease, deny_cache, fallback, local] = counts.by_source;
    let outcomes = counts.outcomes;

    [
        outcomes.allowed,
        outcomes.denied,
        outcomes.shadow_denied,
        store,
        lease,
        deny_cache,
        fallback,
        local,
    ]
}

fn row(id: u32, counts: &LimitCounts) -> [u64; 4 + SOURCES.len()] {
    let mut row = [u64::from(id); 4 + SOURCES.len()];
    row[1..].copy_from_slice(&values(counts));
    row
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
