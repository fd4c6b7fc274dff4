//! What the counters said in about a second, as the page reads it.
//!
//! Owns the difference between two looks, and its text. Knows no clock and no viewer.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::body::Bytes;
use serde::Serialize;
use tollgate::Micros;

use crate::metrics::{DurationBuckets, LimitCounts, LimitMetrics, SOURCES};
use crate::serve::Service;

use super::stream::event;

/// The most limits of one sample. What the others said waits for the next one, so that nothing is
/// lost.
const ROWS_MAX: usize = 256;

/// What the counters say at a moment.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) at: Micros,
    pub(super) limits: Vec<(Arc<LimitMetrics>, LimitCounts)>,
    pub(super) durations: DurationBuckets,
    pub(super) is_up: bool,
    pub(super) degraded_for: Micros,
}

/// Remembers what was told so far.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    told: BTreeMap<u32, Told>,
    durations: DurationBuckets,
    degraded_for: Micros,
}

#[derive(Debug)]
struct Told {
    meter: Arc<LimitMetrics>,
    tally: LimitCounts,
}

/// One sample. Short names, because hundreds are kept.
#[derive(Debug, Serialize)]
struct Sample {
    /// When, in milliseconds since the epoch.
    t: u64,
    /// Decisions.
    n: u64,
    /// The times within which half of them, and 99 of 100, were made, in microseconds.
    p50: u64,
    p99: u64,
    /// Whether all of the store could be asked.
    up: bool,
    /// For how many milliseconds limits answered by their failure policies.
    degraded: u64,
    /// What each limit said that was asked: id, allowed, denied, shadow denied, and how often by
    /// each source.
    rows: Vec<[u64; 4 + SOURCES.len()]>,
}

/// Every limit in force, and what it had said when it was last in a sample.
#[derive(Debug, Serialize)]
struct Limits<'a> {
    sources: [&'static str; SOURCES.len()],
    limits: Vec<LimitTold<'a>>,
}

#[derive(Debug, Serialize)]
struct LimitTold<'a> {
    id: u32,
    name: &'a str,
    /// Allowed, denied, shadow denied, and how often by each source.
    said: [u64; 3 + SOURCES.len()],
}

impl Reading {
    pub(super) fn of(service: &Service) -> Self {
        let running = service.gate.active();
        let meters = service.gate.metrics();
        let tallied = |meter: Arc<LimitMetrics>| {
            let tally = meter.counts();
            (meter, tally)
        };
        Self {
            at: service.gate.now(),
            limits: meters.limits().into_iter().map(tallied).collect(),
            durations: meters.durations(),
            is_up: running.store.is_up(),
            degraded_for: running.limiter.health().degraded_for,
        }
    }
}

impl Sampler {
    /// What was said since the last sample; before it the limits, if they are others than then.
    pub(super) fn sample(&mut self, reading: &Reading) -> (Option<Bytes>, Bytes) {
        let limits = self.know(reading).then(|| self.limits());
        let mut rows = Vec::new();
        for (meter, tally) in &reading.limits {
            let Some(told) = self.told.get_mut(&meter.id()) else {
                continue;
            };
            if *tally != told.tally && rows.len() < ROWS_MAX {
                rows.push(row(meter.id(), &tally.since(&told.tally)));
                told.tally = *tally;
            }
        }
        let durations = reading.durations.since(&self.durations);
        let degraded = reading.degraded_for.since(self.degraded_for);
        self.durations.clone_from(&reading.durations);
        self.degraded_for = reading.degraded_for;
        let sample = Sample {
            t: super::super::millis(reading.at),
            n: durations.total(),
            p50: micros(durations.quantile_seconds(0.5)),
            p99: micros(durations.p99_seconds()),
            up: reading.is_up,
            degraded: super::super::millis(degraded),
            rows,
        };
        (limits, event("sample", &sample))
    }

    /// The limits in force.
    pub(super) fn limits(&self) -> Bytes {
        let told = self.told.values();
        let shown = told.map(|told| LimitTold {
            id: told.meter.id(),
            name: told.meter.name(),
            said: counts(&told.tally),
        });
        event(
            "limits",
            &Limits {
                sources: SOURCES.map(tollgate::Source::as_str),
                limits: shown.collect(),
            },
        )
    }

    /// Begins with the limits that are new, and forgets those that are gone; true when there were
    /// any.
    fn know(&mut self, reading: &Reading) -> bool {
        let is_known =
            |(meter, _): &(Arc<LimitMetrics>, LimitCounts)| self.told.contains_key(&meter.id());
        if reading.limits.len() == self.told.len() && reading.limits.iter().all(is_known) {
            return false;
        }
        let mut before = std::mem::take(&mut self.told);
        self.told = reading
            .limits
            .iter()
            .map(|(meter, _)| {
                let new = || Told {
                    meter: meter.clone(),
                    tally: LimitCounts::default(),
                };
                (meter.id(), before.remove(&meter.id()).unwrap_or_else(new))
            })
            .collect();
        true
    }
}

fn counts(tally: &LimitCounts) -> [u64; 3 + SOURCES.len()] {
    let [store, lease, deny_cache, fallback, local] = tally.by_source;
    let said = tally.outcomes;
    [
        said.allowed,
        said.denied,
        said.shadow_denied,
        store,
        lease,
        deny_cache,
        fallback,
        local,
    ]
}

fn row(id: u32, tally: &LimitCounts) -> [u64; 4 + SOURCES.len()] {
    let mut row = [u64::from(id); 4 + SOURCES.len()];
    row[1..].copy_from_slice(&counts(tally));
    row
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time from nothing to a minute, in microseconds"
)]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

#[cfg(test)]
mod tests;
