//! Compares what a run admitted with what its limit allows.

use std::collections::HashMap;

use tollgate::store::Intent;
use tollgate::store::lease::quantum;
use tollgate::{
    Consistency, DemandBuf, Limit, ManualClock, MemoryStore, Micros, PermitId, Quota, Source, Store,
};

use super::plan::Plan;
use super::world::Run;
use crate::overadmission::{Bound, OverAdmission};

/// The result of one run.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Units admitted beyond the bound, rounded up; correct if at or below 0.
    pub excess: i128,
    /// A description of the worst case.
    pub what: String,
    /// The number of requests.
    pub requests: u64,
    /// Units admitted.
    pub admitted: u64,
    /// Units that one central counter in memory admits of the same requests.
    pub ideal: u64,
    /// The number of decisions.
    pub decisions: u64,
    /// The number of decisions made without a store call.
    pub local: u64,
    /// The number of store calls.
    pub calls: u64,
}

impl Audit {
    /// Evaluates a run of a plan.
    ///
    /// # Panics
    ///
    /// If the plan's numbers are invalid.
    pub fn of(plan: &Plan, run: &Run) -> Self {
        let allowance = i128::from(allowance(plan, run));

        let findings = [
            over_any_interval(plan, run),
            in_each_window(plan, run),
            by_weight(plan, run),
            beyond_the_level(plan, run),
            granted_in_debt(run),
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
            what: format!("{what}, of which {allowance} are within the bound"),
            requests: run.arrivals.len() as u64,
            admitted,
            ideal: ideal(plan, run),
            decisions: run.log.len() as u64,
            local: run
                .log
                .iter()
                .filter(|(_, source)| is_local(*source))
                .count() as u64,
            calls: run.calls,
        }
    }
}

/// What may be admitted beyond the limit: a burst for every time the store lost its data, and the
/// units that eventual replicas had not reported.
fn allowance(plan: &Plan, run: &Run) -> u64 {
    let limit = plan.quota.limit();
    let unreported = match plan.consistency {
        Consistency::Eventual => run.incarnations * quantum(limit, 1).min(limit),
        _ => 0,
    };
    run.bursts * limit + unreported
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

/// Each window of the store separately. What a replica spends after its window has ended belongs to
/// no window.
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

/// The weighted count of a sliding window at every admission, from the actual admissions.
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

/// By how much the use of a bucket, as it was when it happened, exceeds what the store had counted
/// as used at the same time, in units rounded up. Counted units may leave both in debt.
fn beyond_the_level(plan: &Plan, run: &Run) -> Option<(i128, String)> {
    let (per, period) = match &plan.quota {
        Quota::TokenBucket(bucket) => bucket.refill(),
        Quota::LeakyBucket(bucket) => bucket.leak(),
        _ => return None,
    };
    if run.bursts > 0 || plan.consistency != Consistency::Leased {
        return None;
    }

    let admitted = run.log.iter().filter(|(event, _)| event.allowed);
    let admitted = admitted.map(|(event, _)| (event.at.get(), event.cost));
    let mut used: Vec<(u64, u64)> = admitted.chain(run.counted.iter().copied()).collect();
    used.sort_unstable();
    let mut used = used.into_iter().peekable();

    let (per, period) = (i128::from(per), i128::from(period));
    let (mut backlog, mut at, mut worst) = (0_i128, 0_i128, None);
    for (now, idle_at) in &run.levels {
        while let Some((moment, cost)) = used.next_if(|(moment, _)| moment <= now) {
            let moment = i128::from(moment);
            backlog = (backlog - (moment - at) * per).max(0) + i128::from(cost) * period;
            at = moment;
        }

        let level = i128::from(idle_at.saturating_sub(*now)) * per;
        let missing = (backlog - (i128::from(*now) - at) * per).max(0) - level;
        let excess = -(-missing).div_euclid(period);
        if worst.as_ref().is_none_or(|(most, _)| excess > *most) {
            worst = Some((excess, format!("{excess} used and not counted at {now}")));
        }
    }
    worst
}

fn granted_in_debt(run: &Run) -> Option<(i128, String)> {
    let units = i128::from(run.granted_in_debt);
    (units > 0).then(|| (units, format!("{units} granted although nothing was left")))
}

/// What one counter in memory admits of the same requests.
fn ideal(plan: &Plan, run: &Run) -> u64 {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let rule = Limit::new("limit", plan.quota)
        .validate()
        .expect("a valid limit");

    let mut admitted = 0;

    for (at, _, cost) in &run.arrivals {
        clock.set(Micros::new(*at));
        let demand = DemandBuf::new(&rule, "ann", *cost).expect("a valid key");
        let one = store.try_spend(&demand.as_demand(), Intent::Spend, PermitId::NONE);
        let (outcome, _) = one.expect("the embedded store does not block");

        admitted += if outcome.verdict.is_allowed() {
            *cost
        } else {
            0
        };
    }

    admitted
}
