//! The figures of one cell, computed from the trace of its requests.

use std::collections::HashMap;

use tollgate::Micros;
use tollgate_audit::{AdmissionTrack, Bound, Excess, TimeSpan};
use tollgate_load::{
    DecisionSource, LatencySummary, ScheduledRequest, TracedDecision, TracedRequest,
    latency_histogram,
};

use super::cells::{Cell, Link};
use super::limits;
use super::testbed::micros;
use crate::harness::{Figures, P50, P99, float, per};

/// The number of replicas, and the offered load in multiples of the limit.
pub(super) const REPLICAS: &str = "replicas";
pub(super) const LOAD: &str = "load";

pub(super) const OFFERED: &str = "offered";
pub(super) const ADMITTED: &str = "admitted";
pub(super) const DENIED: &str = "denied";
/// Answered by the failure policy, because the store was unavailable.
pub(super) const FALLBACK: &str = "degraded";
const FALLBACK_SHARE: &str = "fallback_share";
/// Decided more than 5 ms after the deadline, where the replicas have the default one.
pub(super) const LATE: &str = "late";
/// Not answered, or not with a decision.
pub(super) const ERRORS: &str = "errors";

/// Units above what the limit allows, over the worst interval of the worst key; negative if the
/// limit was not reached.
pub(super) const EXCESS: &str = "excess";
/// The same, at least 0.
pub(super) const OVER: &str = "over";
/// The most that the excess may be; absent where every replica counts separately.
pub(super) const BOUND: &str = "excess_bound";
/// 1 if more was admitted than the bound allows, or a request above the capacity.
pub(super) const IS_EXCEEDED: &str = "is_exceeded";

/// Script calls during the load: per second, per decision, and per decision of either kind.
pub(super) const CALLS_PER_S: &str = "calls_per_s";
pub(super) const CALLS_PER_REQUEST: &str = "calls_per_request";
pub(super) const CALLS_PER_ADMITTED: &str = "calls_per_admitted";
pub(super) const CALLS_PER_DENIED: &str = "calls_per_denied";
/// Script calls per second before the load.
pub(super) const IDLE_CALLS: &str = "idle_calls_per_s";
/// Admitted requests, relative to those of strict limits in the same case.
pub(super) const ADMITTED_TO_STRICT: &str = "admitted_to_strict";
/// The share of responses that a replica gave without a store call.
pub(super) const LOCAL_SHARE: &str = "local_share";
pub(super) const P999: &str = "p999_us";
/// The 99th percentile of how late requests were sent: where the machine cannot keep up, the
/// offered load was lower than nominal.
pub(super) const SENT_LATE: &str = "sent_late_p99_us";

/// How much later than the deadline a decision may be.
const GRACE_US: u64 = 5_000;
/// How many requests may overtake another one without hiding an excess. With all connections in
/// use, 127 are in flight at the same time.
const OVERTAKEN_MAX: usize = 1_024;

/// The requests of a cell, with their decisions.
pub(super) struct CellTrace {
    pub(super) requests: Vec<TracedRequest>,
    /// The store's time at the start of the trace, and how uncertain it is.
    pub(super) epoch_us: u64,
    pub(super) clock_error_us: u64,
    pub(super) script_calls: u64,
}

/// A request that got a decision.
type DecidedRequest = (ScheduledRequest, TracedDecision);

/// All figures of a trace.
pub(super) fn figures(cell: &Cell, trace: &CellTrace) -> Figures {
    let decided = trace.requests.iter();
    let decided = decided.filter_map(|traced| Some((traced.request, traced.decision?)));
    let mut decided: Vec<DecidedRequest> = decided.collect();
    decided.sort_by_key(|(_, decision)| decision.received_us);
    let mut admitted = decided.clone();
    admitted.retain(|(_, decision)| decision.is_allowed);

    let mut figures = Figures::from([
        (REPLICAS, float(cell.replicas as u64)),
        (LOAD, cell.load),
        ("length_ms", float(cell.length_ms)),
        (LATE, late(cell, &decided)),
        (CALLS_PER_S, 1e3 * per(trace.script_calls, cell.length_ms)),
    ]);
    figures.extend(counts(trace, &decided, &admitted));
    figures.extend(verdict(cell, trace, &admitted));
    figures.extend(latencies(&decided));
    figures
}

/// How many requests got which decision, and the store calls for them.
fn counts(
    trace: &CellTrace,
    decided: &[DecidedRequest],
    admitted: &[DecidedRequest],
) -> [(&'static str, f64); 12] {
    let count = |is: fn(&TracedDecision) -> bool| {
        decided.iter().filter(|(_, decision)| is(decision)).count() as u64
    };
    let fallback = count(|one| one.source == DecisionSource::Fallback);
    let denied = count(|one| !one.is_allowed && one.source != DecisionSource::Fallback);
    let local = count(|one| {
        use DecisionSource::{DenyCache, Lease, Local};
        matches!(one.source, Lease | DenyCache | Local)
    });

    let (all, answered) = (trace.requests.len() as u64, decided.len() as u64);
    let calls_per = |requests| per(trace.script_calls, requests);
    [
        (OFFERED, float(all)),
        (ADMITTED, float(admitted.len() as u64)),
        (DENIED, float(denied)),
        (FALLBACK, float(fallback)),
        (FALLBACK_SHARE, per(fallback, answered)),
        (ERRORS, float(all - answered)),
        ("admitted_units", float(admitted.iter().map(cost).sum())),
        ("script_calls", float(trace.script_calls)),
        (CALLS_PER_REQUEST, calls_per(answered)),
        (CALLS_PER_ADMITTED, calls_per(admitted.len() as u64)),
        (CALLS_PER_DENIED, calls_per(denied)),
        (LOCAL_SHARE, per(local, answered)),
    ]
}

/// How many decisions took longer than they may, from sending the request. Where the timeout is
/// longer than the default, that says nothing.
fn late(cell: &Cell, decided: &[DecidedRequest]) -> f64 {
    let link = cell.case.link();
    let latest_us = micros(link.timeout()) + GRACE_US;
    let is_late = |one: &&DecidedRequest| one.1.received_us - one.1.sent_us > latest_us;
    match link {
        Link::Patient => f64::NAN,
        Link::Default | Link::Slow => float(decided.iter().filter(is_late).count() as u64),
    }
}

/// By how much the limit was exceeded, and whether that is more than its bound.
fn verdict(
    cell: &Cell,
    trace: &CellTrace,
    admitted: &[DecidedRequest],
) -> [(&'static str, f64); 5] {
    let capacity = limits::quota(cell.limit).limit();
    let impossible = admitted.iter().filter(|one| cost(one) > capacity).count();
    let excess = worst(cell, admitted, trace);
    let exceeds = |bound| impossible > 0 || excess.is_some_and(|excess| excess.exceeds(bound));

    let (bound, units) = (cell.bound(), excess.map_or(0.0, Excess::units));
    [
        (EXCESS, units),
        (OVER, units.max(0.0)),
        (BOUND, bound.map_or(f64::NAN, float)),
        (IS_EXCEEDED, f64::from(bound.is_some_and(exceeds))),
        // Admitted requests that cost more than the limit's capacity.
        ("impossible", float(impossible as u64)),
    ]
}

fn cost((request, _): &DecidedRequest) -> u64 {
    request.params.cost.unwrap_or(1)
}

/// The worst excess over all keys. Windows are those of the store's clock, and a request counts in
/// one only if no error of the clocks puts it outside.
fn worst(cell: &Cell, admitted: &[DecidedRequest], trace: &CellTrace) -> Option<Excess> {
    let bound = Bound::for_quota_and_clock(&limits::quota(cell.limit))?;
    let error_us = match bound {
        Bound::AlignedWindow { .. } => trace.clock_error_us,
        _ => 0,
    };
    let at = |us: u64| Micros::new(trace.epoch_us + us);

    let mut keys = HashMap::new();
    for one @ (request, decision) in admitted {
        let admissions = keys
            .entry(request.params.key)
            .or_insert_with(|| AdmissionTrack::with_events_max(bound, OVERTAKEN_MAX));
        let span = TimeSpan {
            from: at(decision.sent_us).since(Micros::new(error_us)),
            to: at(decision.received_us + error_us),
        };
        admissions.admit(span, cost(one));
    }
    let worst = keys.values().filter_map(AdmissionTrack::worst);
    worst
        .map(|interval| interval.excess)
        .max_by_key(|excess| excess.parts().0)
}

/// Percentiles of latencies and of how late requests were sent, both from the due time and in
/// microseconds; empty if no request got a decision.
fn latencies(decided: &[DecidedRequest]) -> Figures {
    let summary = |time_us: fn(&TracedDecision) -> u64| {
        let mut lengths = latency_histogram(3);
        for (request, decision) in decided {
            lengths.saturating_record(time_us(decision).saturating_sub(request.due_us));
        }
        LatencySummary::from_histogram(&lengths)
    };
    let (latency, late) = (summary(|one| one.received_us), summary(|one| one.sent_us));

    let mut figures = Figures::new();
    figures.extend(late.map(|late| (SENT_LATE, float(late.p99))));
    if let Some(LatencySummary { p50, p99, p999, .. }) = latency {
        figures.extend([(P50, float(p50)), (P99, float(p99)), (P999, float(p999))]);
    }
    figures
}

#[cfg(test)]
pub(super) mod tests;
