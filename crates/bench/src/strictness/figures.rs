//! The figures of one cell, computed from the trace of its requests, and what an ideal limiter would
//! have admitted of the same requests: one central limiter without latency, which is the embedded
//! store on a manual clock set to the time of each request.
//!
//! The time of a request is the time at which it was due. On a machine that cannot keep up,
//! requests are sent later than that and more units are refilled in between, so a real limiter
//! could look better than the ideal one. Therefore the send times are replayed as well, and the
//! ideal is the replay that admits more.

use super::cells::{self, Cell, Link};
use crate::harness::prelude::*;
use std::collections::{HashMap, HashSet};
use tollgate::{Limit, Limiter, ManualClock, MemoryStore, Micros};
use tollgate_audit::{AdmissionTrack, Bound, Excess, TimeSpan};
use tollgate_load::{
    DecisionSource, LatencySummary, ScheduledRequest, TracedDecision, TracedRequest,
    latency_histogram,
};

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
        // The number of replicas, and the offered load in multiples of the limit.
        ("replicas", float(cell.replicas as u64)),
        ("load", cell.load),
        ("length_ms", float(cell.length_ms)),
        // Decided more than 5 ms after the deadline, where the replicas have the default one.
        ("late", late(cell, &decided)),
        // Script calls during the load: per second, per decision, and per decision of either kind.
        ("calls_per_s", 1e3 * per(trace.script_calls, cell.length_ms)),
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
        ("offered", float(all)),
        ("admitted", float(admitted.len() as u64)),
        ("denied", float(denied)),
        // Answered by the failure policy, because the store was unavailable.
        ("degraded", float(fallback)),
        ("fallback_share", per(fallback, answered)),
        // Not answered, or not with a decision.
        ("errors", float(all - answered)),
        ("admitted_units", float(admitted.iter().map(cost).sum())),
        ("script_calls", float(trace.script_calls)),
        ("calls_per_request", calls_per(answered)),
        ("calls_per_admitted", calls_per(admitted.len() as u64)),
        ("calls_per_denied", calls_per(denied)),
        // The share of responses that a replica gave without a store call.
        ("local_share", per(local, answered)),
    ]
}

/// How many decisions took longer than they may, from sending the request. Where the timeout is
/// longer than the default, that says nothing.
fn late(cell: &Cell, decided: &[DecidedRequest]) -> f64 {
    let link = cell.case.link();
    if link == Link::PATIENT {
        return f64::NAN;
    }
    let latest_us = link.timeout_ms * 1_000 + GRACE_US;
    let is_late = |one: &&DecidedRequest| one.1.received_us - one.1.sent_us > latest_us;
    float(decided.iter().filter(is_late).count() as u64)
}

/// By how much the limit was exceeded, and whether that is more than its bound.
fn verdict(
    cell: &Cell,
    trace: &CellTrace,
    admitted: &[DecidedRequest],
) -> [(&'static str, f64); 5] {
    let capacity = cell.quota().limit();
    let impossible = admitted.iter().filter(|one| cost(one) > capacity).count();
    let excess = worst(cell, admitted, trace);
    let exceeds = |bound| impossible > 0 || excess.is_some_and(|excess| excess.exceeds(bound));

    let (bound, units) = (cell.bound(), excess.map_or(0.0, Excess::units));
    [
        // Units above what the limit allows, over the worst interval of the worst key; negative if the
        // limit was not reached.
        ("excess", units),
        // The same, at least 0.
        ("over", units.max(0.0)),
        // The most that the excess may be; absent where every replica counts separately.
        ("excess_bound", bound.map_or(f64::NAN, float)),
        // 1 if more was admitted than the bound allows, or a request above the capacity.
        ("is_exceeded", f64::from(bound.is_some_and(exceeds))),
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
    let bound = Bound::for_quota_and_clock(&cell.quota())?;
    let error_us = match bound {
        Bound::AlignedWindow { .. } => trace.clock_error_us,
        _ => 0,
    };
    let at = |us: u64| Micros::new(trace.epoch_us + us);

    let mut keys = HashMap::new();
    for one @ (request, decision) in admitted {
        let new_track = || AdmissionTrack::with_events_max(bound, OVERTAKEN_MAX);
        let admissions = keys.entry(request.params.key).or_insert_with(new_track);
        let span = TimeSpan {
            from: at(decision.sent_us).since(Micros::new(error_us)),
            to: at(decision.received_us + error_us),
        };
        admissions.admit(span, cost(one));
    }
    let worst = keys.values().filter_map(AdmissionTrack::worst);
    let excess = worst.map(|interval| interval.excess);
    excess.max_by_key(|excess| excess.parts().0)
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
    // Where the machine cannot keep up, the offered load was lower than nominal.
    figures.extend(late.map(|late| ("sent_late_p99_us", float(late.p99))));
    if let Some(LatencySummary { p50, p99, p999, .. }) = latency {
        figures.extend([
            (P50, float(p50)),
            (P99, float(p99)),
            ("p999_us", float(p999)),
        ]);
    }
    figures
}

/// Replays a trace with the ideal limiter, on a store clock that shows `epoch_us` at the start.
pub(super) fn replay(limit: &str, trace: &[TracedRequest], epoch_us: u64) -> Result<Figures> {
    let due = replay_at(|traced| traced.request.due_us, limit, trace, epoch_us)?;
    let sent_us = |traced: &TracedRequest| match traced.decision {
        Some(decision) => decision.sent_us,
        None => traced.request.due_us,
    };
    let sent = replay_at(sent_us, limit, trace, epoch_us)?;
    Ok(if sent["ideal_units"] > due["ideal_units"] {
        sent
    } else {
        due
    })
}

fn replay_at(
    time_us: fn(&TracedRequest) -> u64,
    limit: &str,
    trace: &[TracedRequest],
    epoch_us: u64,
) -> Result<Figures> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let rule = Limit::new(limit, cells::quota(limit));
    let limiter = Limiter::new(store, [rule])?;
    let mut in_order: Vec<&TracedRequest> = trace.iter().collect();
    in_order.sort_by_key(|traced| time_us(traced));

    // Units of the trace and of the ideal limiter: all, and those since it was used up.
    let (mut all, mut since_full, mut is_full) = ([0; 2], [0; 2], false);
    let mut exhausted_keys = HashSet::new();
    for traced in in_order {
        let params = traced.request.params;
        let cost = params.cost.unwrap_or(1);
        clock.set(Micros::new(epoch_us + time_us(traced)));
        let check = limiter.check(limit, u64::from(params.key)).cost(cost);
        let decision = check.try_now()?;

        is_full |= !decision.is_allowed() && !decision.is_never();
        if !decision.is_allowed() {
            exhausted_keys.insert(params.key);
        }
        let was_allowed = traced.decision.is_some_and(|decision| decision.is_allowed);
        for (index, is_allowed) in [was_allowed, decision.is_allowed()].into_iter().enumerate() {
            all[index] += cost * u64::from(is_allowed);
            since_full[index] += cost * u64::from(is_allowed && is_full);
        }
    }
    let [utilisation, full] = [all, since_full].map(|[had, ideal]| per(had, ideal));
    Ok(Figures::from([
        // Units admitted by the ideal limiter.
        ("ideal_units", float(all[1])),
        // Units admitted, relative to that.
        ("utilisation", utilisation),
        // The same from the time at which the ideal limiter first denied a request that could be admitted
        // at another time. This excludes the burst, which is easy to admit.
        ("utilisation_full", full),
        // Denials of keys that stayed within their limit: the ideal limiter never denies them.
        ("false_denials", false_denials(trace, &exhausted_keys)),
        // The lower of the two, or the other one if one of them is not a number.
        ("utilisation_lowest", utilisation.min(full)),
    ]))
}

/// How many requests were denied by the store or by a remembered denial, of keys other than these.
fn false_denials(trace: &[TracedRequest], exhausted_keys: &HashSet<u32>) -> f64 {
    let is_false = |traced: &&TracedRequest| {
        let is_denied = traced.decision.is_some_and(|decision| {
            !decision.is_allowed && decision.source != DecisionSource::Fallback
        });
        is_denied && !exhausted_keys.contains(&traced.request.params.key)
    };
    float(trace.iter().filter(is_false).count() as u64)
}

#[cfg(test)]
pub(super) mod tests;
