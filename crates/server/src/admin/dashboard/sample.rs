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
use crate::metrics::{Durations, LimitMeter, SOURCES, Tally};
use crate::serve::Service;

/// The most limits in one sample. The counts of further limits go into the next sample, so none
/// are lost.
const ROWS_MAX: usize = 256;

/// The values of all counters at one time.
#[derive(Debug)]
pub(super) struct CounterSnapshot {
    pub(super) at: Micros,
    pub(super) limits: Vec<(Arc<LimitMeter>, Tally)>,
    pub(super) durations: Durations,
    pub(super) is_up: bool,
    /// The duration of all degraded periods so far.
    pub(super) degraded_for: Micros,
}

/// Turns snapshots into samples. Remembers the values that samples have covered so far.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// By the id of the limit.
    limits: BTreeMap<u32, SampledLimit>,
    durations: Durations,
    degraded_for: Micros,
}

/// A limit, and its counts up to the last sample that included it.
#[derive(Debug)]
struct SampledLimit {
    meter: Arc<LimitMeter>,
    tally: Tally,
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
    #[serde(rename = "said")]
    counts: [u64; 3 + SOURCES.len()],
}

impl CounterSnapshot {
    pub(super) fn new(service: &Service) -> Self {
        let running = service.gate.running();
        let meters = service.gate.meters();
        let with_tally = |meter: Arc<LimitMeter>| {
            let tally = meter.tally();
            (meter, tally)
        };

        Self {
            at: service.gate.now(),
            limits: meters.in_force().into_iter().map(with_tally).collect(),
            durations: meters.durations(),
            is_up: running.store.is_up(),
            degraded_for: running.limiter.health().degraded_for,
        }
    }
}

impl Sampler {
    /// The increase since the last sample as a `sample` event, and before it a `limits` event if
    /// the set of limits has changed.
    pub(super) fn sample(&mut self, snapshot: &CounterSnapshot) -> (Option<Bytes>, Bytes) {
        let limits = self.update_limits(snapshot).then(|| self.limits_event());

        let mut rows = Vec::new();
        for (meter, tally) in &snapshot.limits {
            let Some(sampled) = self.limits.get_mut(&meter.id()) else {
                continue;
            };
            if *tally != sampled.tally && rows.len() < ROWS_MAX {
                rows.push(row(meter.id(), &tally.since(&sampled.tally)));
                sampled.tally = *tally;
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
            id: sampled.meter.id(),
            name: sampled.meter.name(),
            counts: counts(&sampled.tally),
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
            |(meter, _): &(Arc<LimitMeter>, Tally)| self.limits.contains_key(&meter.id());
        if snapshot.limits.len() == self.limits.len() && snapshot.limits.iter().all(is_known) {
            return false;
        }

        let mut before = std::mem::take(&mut self.limits);
        self.limits = snapshot
            .limits
            .iter()
            .map(|(meter, _)| {
                let new = || SampledLimit {
                    meter: meter.clone(),
                    tally: Tally::default(),
                };
                (meter.id(), before.remove(&meter.id()).unwrap_or_else(new))
            })
            .collect();
        true
    }
}

fn counts(tally: &Tally) -> [u64; 3 + SOURCES.len()] {
    let [store, lease, deny_cache, fallback, local] = tally.by_source;
    let outcomes = tally.said;

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

fn row(id: u32, tally: &Tally) -> [u64; 4 + SOURCES.len()] {
    let mut row = [u64::from(id); 4 + SOURCES.len()];
    row[1..].copy_from_slice(&counts(tally));
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
