//! What a run let through, held against what its limit promises.

use std::collections::HashMap;

use tollgate::lease::quantum;
use tollgate::store::Intent;
use tollgate::{
    Consistency, Limit, ManualClock, MemoryStore, Micros, PermitId, Quota, Source, Store,
};

use super::plan::Plan;
use super::world::Run;
use crate::overadmission::{Bound, OverAdmission};

/// The findings about one run.
#[derive(Clone, Debug)]
pub struct Audit {
    /// What was admitted beyond the promise, in units, rounded up; at or below 0 is right.
    pub excess: i128,
    /// In which respect.
    pub what: String,
    /// Units let through, and by an ideal central limiter.
    pub admitted: u64,
    /// The same requests, put to one counter in memory.
    pub ideal: u64,
    /// Decisions, and those made without a trip.
    pub decisions: u64,
    /// See `decisions`.
    pub local: u64,
    /// Trips made.
    pub trips: u64,
}

impl Audit {
    /// Looks at a run of a plan.
    ///
    /// # Panics
    ///
    /// If the plan's numbers are wrong.
    pub fn of(plan: &Plan, run: &Run) -> Self {
        let allowance = i128::from(allowance(plan, run));
        let findings = [
            over_any_interval(plan, run),
            in_each_window(plan, run),
            by_weight(plan, run),
        ];
        let worst = findings
            .into_iter()
            .flatten()
            .max_by_key(|(excess, _)| *excess);
        let (excess, what) = worst.unwrap_or((0, "nothing was admitted".to_owned()));
        let admitted = run
            .log
            .iter()
            .filter(|(event, _)| event.allowed)
            .map(|(event, _)| event.cost)
            .sum();
        let is_local = |source: Source| matches!(source, Source::Lease | Source::DenyCache);
        Self {
            excess: excess - allowance,
            what: format!("{what}, {allowance} of that may be"),
            admitted,
            ideal: ideal(plan, run),
            decisions: run.log.len() as u64,
            local: run
                .log
                .iter()
                .filter(|(_, source)| is_local(*source))
                .count() as u64,
            trips: run.trips,
        }
    }
}

/// What may be admitted beyond the limit: a burst for every time the store forgot everything, and
/// what eventual processes had not told.
fn allowance(plan: &Plan, run: &Run) -> u64 {
    let limit = plan.quota.limit();
    let untold = match plan.consistency {
        Consistency::Eventual => run.lives * quantum(limit, 1).min(limit),
        _ => 0,
    };
    run.bursts * limit + untold
}

/// The algorithm's bound over every interval.
fn over_any_interval(plan: &Plan, run: &Run) -> Option<(i128, String)> {
    let bound = Bound::for_quota(&plan.quota)?;
    let log = run.log.iter().map(|(event, _)| event.clone());
    let worst = OverAdmission::from_log(bound, log).worst()?;
    let (numerator, denominator) = worst.excess.parts();
    let excess = -(-numerator).div_euclid(i128::from(denominator));
    Some((excess, worst.to_string()))
}

/// Each of the store's windows by itself. What a process spends after its window has ended belongs
/// to none.
fn in_each_window(plan: &Plan, run: &Run) -> Option<(i128, String)> {
    if !matches!(plan.quota, Quota::FixedWindow(_)) {
        return None;
    }
    let mut counts: HashMap<u64, i128> = HashMap::new();
    let limit = i128::from(plan.quota.limit());
    for (event, source) in run.log.iter().filter(|(event, _)| event.allowed) {
        let at = event.at.get();
        let begun = run.windows.partition_point(|(begin, _)| *begin <= at);
        let window = begun
            .checked_sub(1)
            .map(|index| run.windows[index].1)
            .filter(|end| at < *end);
        let window = match (window, source) {
            (Some(window), _) => window,
            (None, Source::Lease) if plan.consistency == Consistency::Leased && run.bursts == 0 => {
                return Some((i128::from(event.cost), format!("{event:?} is in no window")));
            }
            (None, _) => continue,
        };
        *counts.entry(window).or_default() += i128::from(event.cost);
    }
    let (window, count) = counts
        .into_iter()
        .max_by_key(|(window, count)| (*count, *window))?;
    Some((count - limit, format!("{count} in the window {window}")))
}

/// The weighted count of a sliding window at every admission, by what was really let through.
fn by_weight(plan: &Plan, run: &Run) -> Option<(i128, String)> {
    let Quota::SlidingWindow(quota) = &plan.quota else {
        return None;
    };
    let (length, limit) = (quota.window().get(), i128::from(quota.limit()));
    let mut counts: HashMap<u64, i128> = HashMap::new();
    let mut worst = None;
    for (event, _) in run.log.iter().filter(|(event, _)| event.allowed) {
        let (window, into) = (event.at.get() / length, event.at.get() % length);
        *counts.entry(window).or_default() += i128::from(event.cost);
        let previous = counts.get(&(window - 1)).copied().unwrap_or_default();
        let weighted = counts[&window] * i128::from(length) + previous * i128::from(length - into);
        let excess = -(limit * i128::from(length) - weighted).div_euclid(i128::from(length));
        if worst.as_ref().is_none_or(|(most, _)| excess > *most) {
            worst = Some((excess, format!("{excess} over by weight at {:?}", event.at)));
        }
    }
    worst
}

/// What one counter in memory lets through of the same requests.
fn ideal(plan: &Plan, run: &Run) -> u64 {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let rule = Limit::new("limit", plan.quota)
        .rule()
        .expect("a right limit");
    let mut admitted = 0;
    for (at, _, cost) in &run.arrivals {
        clock.set(Micros::new(*at));
        let check = rule.demand("ann", *cost).expect("a right key");
        let one = store.try_spend(&check.as_demand(), Intent::Spend, PermitId::NONE);
        let (outcome, _) = one.expect("memory answers at once");
        admitted += if outcome.verdict.is_allowed() {
            *cost
        } else {
            0
        };
    }
    admitted
}
