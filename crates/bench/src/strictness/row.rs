//! The figures of one cell, computed from the trace of its requests, with its bound and whether it
//! was kept.

use std::collections::HashMap;

use serde::Serialize;
use tollgate::Micros;
use tollgate_audit::{AdmissionTrack, Bound, Excess, TimeSpan};
use tollgate_load::{
    DecisionSource, LatencySummary, ScheduledRequest, TracedDecision, TracedRequest,
    latency_histogram,
};

use super::cells::{Cell, Mode, Targets};
use super::ideal::IdealResult;
use super::limits;
use super::retry::RetryResult;

/// How many requests may overtake another one without hiding an excess. With all connections in
/// use, 127 are in flight at the same time.
const OVERTAKEN_MAX: usize = 1_024;

/// The figures of one cell.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) cell: Cell,
    pub(super) offered: usize,
    pub(super) admitted: usize,
    pub(super) denied: usize,
    /// Answered by the failure policy, because the store was unavailable.
    pub(super) degraded: usize,
    /// Not answered, or not with a decision.
    pub(super) errors: usize,
    pub(super) admitted_units: u64,
    pub(super) ideal_units: u64,
    /// Units above what the limit allows, over the worst interval of the worst key; negative if the
    /// limit was not reached.
    pub(super) excess: f64,
    /// The most that `excess` may be; absent where every replica counts separately.
    pub(super) excess_bound: Option<u64>,
    pub(super) is_exceeded: bool,
    /// Admitted requests that cost more than the limit's capacity.
    pub(super) impossible: usize,
    pub(super) utilisation: Option<f64>,
    /// Utilisation from the time at which an ideal limiter would have been used up.
    pub(super) utilisation_full: Option<f64>,
    pub(super) script_calls: u64,
    pub(super) calls_per_request: Option<f64>,
    pub(super) calls_per_admitted: Option<f64>,
    pub(super) calls_per_denied: Option<f64>,
    /// The 99th percentile of how late requests were sent: where the machine cannot keep up, the
    /// offered load was lower than nominal.
    pub(super) sent_late_p99_us: Option<u64>,
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
    pub(super) p999_us: Option<u64>,
    /// The share of responses that a replica gave without a store call.
    pub(super) local_share: Option<f64>,
    pub(super) retry_after: RetryResult,
}

/// The measurements of a cell.
pub(super) struct CellMeasurement {
    pub(super) trace: Vec<TracedRequest>,
    pub(super) ideal: IdealResult,
    /// The store's time at the start of the trace, and how uncertain it is.
    pub(super) epoch_us: u64,
    pub(super) clock_error_us: u64,
    pub(super) script_calls: u64,
    pub(super) retry_after: RetryResult,
}

/// A request that got a decision.
type DecidedRequest = (ScheduledRequest, TracedDecision);

impl Row {
    pub(super) fn new(cell: &Cell, measurement: &CellMeasurement) -> Self {
        let CellMeasurement {
            trace,
            ideal,
            script_calls,
            ..
        } = measurement;
        let decided = trace
            .iter()
            .filter_map(|traced| Some((traced.request, traced.decision?)));
        let mut decided: Vec<DecidedRequest> = decided.collect();
        decided.sort_by_key(|(_, decision)| decision.received_us);
        let count = |is: fn(&TracedDecision) -> bool| {
            let decisions = decided.iter().map(|(_, decision)| decision);
            decisions.filter(|decision| is(decision)).count()
        };
        let denied =
            count(|one| !one.is_allowed && !matches!(one.source, DecisionSource::Fallback));
        let local = count(|one| {
            use DecisionSource::{DenyCache, Lease, Local};
            matches!(one.source, Lease | DenyCache | Local)
        });
        let mut admitted = decided.clone();
        admitted.retain(|(_, decision)| decision.is_allowed);

        let capacity = limits::quota(cell.limit).limit();
        let impossible = admitted
            .iter()
            .filter(|(request, _)| cost(request) > capacity);
        let impossible = impossible.count();
        let excess = worst(cell, &admitted, measurement);
        let excess_bound = cell.bound();
        let exceeds = |bound| impossible > 0 || excess.is_some_and(|excess| excess.exceeds(bound));

        let latency = percentiles(&decided, |request, decision| {
            decision.received_us.saturating_sub(request.due_us)
        });
        let late = percentiles(&decided, |request, decision| {
            decision.sent_us.saturating_sub(request.due_us)
        });
        Self {
            cell: *cell,
            offered: trace.len(),
            admitted: admitted.len(),
            denied,
            degraded: count(|one| one.source == DecisionSource::Fallback),
            errors: trace.len() - decided.len(),
            admitted_units: admitted.iter().map(|(request, _)| cost(request)).sum(),
            ideal_units: ideal.units,
            excess: excess.map_or(0.0, Excess::units),
            excess_bound,
            is_exceeded: excess_bound.is_some_and(exceeds),
            impossible,
            utilisation: ideal.utilisation,
            utilisation_full: ideal.utilisation_full,
            script_calls: *script_calls,
            calls_per_request: per(*script_calls, trace.len()),
            calls_per_admitted: per(*script_calls, admitted.len()),
            calls_per_denied: per(*script_calls, denied),
            sent_late_p99_us: late.map(|late| late.p99),
            p50_us: latency.map(|latency| latency.p50),
            p99_us: latency.map(|latency| latency.p99),
            p999_us: latency.map(|latency| latency.p999),
            local_share: per(local as u64, decided.len()),
            retry_after: measurement.retry_after,
        }
    }

    /// Units over the limit for the table: negative values become zero.
    pub(super) fn over(&self) -> f64 {
        self.excess.max(0.0)
    }

    /// The targets other than strictness that were missed, as text. Only leased limits have
    /// targets; the other modes are for comparison.
    pub(super) fn missed(&self) -> Vec<String> {
        let Targets {
            utilisation_min,
            calls_per_admitted_max,
            calls_per_denied_max,
        } = self.cell.targets;
        let mut missed = Vec::new();
        if self.cell.mode == Mode::Leased {
            let full = self.utilisation_full.or(self.utilisation);
            let lowest = self.utilisation.zip(full).map(|(all, full)| all.min(full));
            if let (Some(min), Some(found)) = (utilisation_min, lowest)
                && found < min
            {
                missed.push(format!("utilisation {found:.3}, target {min}"));
            }
            for (what, max, found) in [
                ("admitted", calls_per_admitted_max, self.calls_per_admitted),
                ("denied", calls_per_denied_max, self.calls_per_denied),
            ] {
                if let (Some(max), Some(found)) = (max, found)
                    && found > max
                {
                    missed.push(format!("{found:.3} calls per {what}, target {max}"));
                }
            }
        }

        let RetryResult { kept, of } = self.retry_after;
        if kept < of {
            missed.push(format!("{} of {of} retries were denied", of - kept));
        }
        missed
    }
}

fn cost(request: &ScheduledRequest) -> u64 {
    request.params.cost.unwrap_or(1)
}

/// The worst excess over all keys. Windows are those of the store's clock, and a request counts in
/// one only if no error of the clocks puts it outside.
fn worst(
    cell: &Cell,
    admitted: &[DecidedRequest],
    measurement: &CellMeasurement,
) -> Option<Excess> {
    let bound = Bound::for_quota_and_clock(&limits::quota(cell.limit))?;
    let error_us = match bound {
        Bound::AlignedWindow { .. } => measurement.clock_error_us,
        _ => 0,
    };
    let at = |us: u64| Micros::new(measurement.epoch_us + us);

    let mut keys = HashMap::new();
    for (request, decision) in admitted {
        let track = keys
            .entry(request.params.key)
            .or_insert_with(|| AdmissionTrack::with_events_max(bound, OVERTAKEN_MAX));
        let span = TimeSpan {
            from: at(decision.sent_us).since(Micros::new(error_us)),
            to: at(decision.received_us + error_us),
        };
        track.admit(span, cost(request));
    }
    let worst = keys.values().filter_map(AdmissionTrack::worst);
    worst
        .map(|interval| interval.excess)
        .max_by_key(|excess| excess.parts().0)
}

/// The percentiles of a duration in microseconds.
fn percentiles(
    decided: &[DecidedRequest],
    length_us: impl Fn(&ScheduledRequest, &TracedDecision) -> u64,
) -> Option<LatencySummary> {
    let mut lengths = latency_histogram(3);
    decided
        .iter()
        .for_each(|(request, decision)| lengths.saturating_record(length_us(request, decision)));
    LatencySummary::from_histogram(&lengths)
}

#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
fn per(count: u64, requests: usize) -> Option<f64> {
    (requests > 0).then(|| count as f64 / requests as f64)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cells::{Case, tests};
    use super::super::limits::SECOND_US;
    use super::super::{ideal, schedule};
    use super::*;

    /// A row of a cold key, of which the first `admitted` of 3,000 requests were admitted.
    pub(in super::super) fn row(mode: Mode, replicas: usize, admitted: usize) -> Row {
        let cell = tests::cell(Case::Cold, mode, replicas, "1000-once");
        let sources = [DecisionSource::Store, DecisionSource::Lease];
        let requests = schedule::requests(&cell, SECOND_US).into_iter().enumerate();
        let traced = requests.map(|(index, request)| TracedRequest {
            request: ScheduledRequest {
                due_us: 0,
                ..request
            },
            decision: Some(TracedDecision {
                sent_us: 10,
                received_us: 500,
                is_allowed: index < admitted,
                source: sources[index % 2],
            }),
        });
        let trace: Vec<TracedRequest> = traced.collect();
        let measurement = CellMeasurement {
            ideal: ideal::replay(cell.limit, &trace, SECOND_US).unwrap(),
            trace,
            epoch_us: SECOND_US,
            clock_error_us: 0,
            script_calls: 30,
            retry_after: RetryResult { kept: 1, of: 2 },
        };
        Row::new(&cell, &measurement)
    }

    /// The excess of a limit by admissions of one unit at these times, in milliseconds.
    fn excess(limit: &'static str, clock_error_us: u64, times_ms: &[(u64, u64)]) -> f64 {
        let cell = tests::cell(Case::Edge, Mode::Strict, 1, limit);
        let request = schedule::requests(&cell, 0)[0];
        let traced = times_ms.iter().map(|(from_ms, to_ms)| TracedRequest {
            request,
            decision: Some(TracedDecision {
                sent_us: from_ms * 1_000,
                received_us: to_ms * 1_000,
                is_allowed: true,
                source: DecisionSource::Store,
            }),
        });
        let measurement = CellMeasurement {
            trace: traced.collect(),
            ideal: ideal::IdealResult::default(),
            epoch_us: 5 * SECOND_US,
            clock_error_us,
            script_calls: 0,
            retry_after: RetryResult::default(),
        };
        Row::new(&cell, &measurement).excess
    }

    #[test]
    fn windows_are_judged_by_the_clock_of_the_store() {
        let mut times = vec![(999, 999); 500];
        times.extend(vec![(1_000, 1_000); 501]);
        assert!((excess("fixed-500", 0, &times) - 1.0).abs() < 1e-9);
        // Where the edge is not known to the millisecond, admissions close to it prove nothing.
        assert!(excess("fixed-500", 2_000, &times).abs() < 1e-9);
        // The previous window still counts in full.
        assert!((excess("sliding-500", 0, &times) - 501.0).abs() < 1e-9);
        let mut later = vec![(0, 1); 500];
        later.extend(vec![(1_500, 1_500); 250]);
        assert!(excess("sliding-500", 0, &later).abs() < 1e-9);
    }

    #[test]
    fn an_admission_at_an_uncertain_time_proves_nothing() {
        let full = [(0, 1); 10];
        let with = |one: (u64, u64)| excess("10-per-s", 0, &[&full[..], &[one]].concat());
        assert!(with((0, 1)) > 0.9);
        // It was in flight for so long that it may have been admitted after a refill.
        assert!(with((0, 150)) <= 0.0);
    }

    #[test]
    fn figures_are_counted() {
        let row = row(Mode::Leased, 2, 900);
        assert_eq!(
            (row.offered, row.admitted, row.denied, row.errors),
            (3_000, 900, 2_100, 0)
        );
        assert_eq!(
            (row.admitted_units, row.ideal_units, row.is_exceeded),
            (900, 1_000, false)
        );
        assert_eq!(
            (row.p50_us, row.p999_us, row.sent_late_p99_us),
            (Some(500), Some(500), Some(10))
        );
        let shares = [row.utilisation, row.local_share, row.calls_per_request];
        assert_eq!(
            shares.map(|share| share.map(|share| format!("{share:.2}"))),
            ["0.90", "0.50", "0.01"].map(|text| Some(text.to_owned()))
        );
        assert!(row.over().abs() < 1e-9);
        assert_eq!(row.missed(), ["1 of 2 retries were denied"]);
    }

    #[test]
    fn one_unit_too_many_is_judged_by_mode() {
        assert!(row(Mode::Strict, 2, 1_001).is_exceeded);
        assert!((row(Mode::Strict, 2, 1_001).over() - 1.0).abs() < 1e-3);
        assert!(!row(Mode::Eventual, 2, 1_100).is_exceeded);
        assert!(row(Mode::Eventual, 2, 1_101).is_exceeded);
        assert!(!row(Mode::Local, 2, 2_000).is_exceeded);
    }

    #[test]
    fn targets_are_those_of_leases() {
        let targets = Targets {
            utilisation_min: Some(0.97),
            calls_per_denied_max: Some(0.001),
            ..Targets::default()
        };
        let mut row = Row {
            retry_after: RetryResult::default(),
            ..row(Mode::Leased, 2, 900)
        };
        row.cell.targets = targets;
        assert_eq!(
            row.missed(),
            [
                "utilisation 0.900, target 0.97",
                "0.014 calls per denied, target 0.001"
            ]
        );
        row.cell.mode = Mode::Strict;
        assert!(row.missed().is_empty());
    }
}
