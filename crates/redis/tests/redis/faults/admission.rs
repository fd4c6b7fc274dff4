//! Over-admission and false denials by the store and by the failure policy `local`.

use std::fmt;

use testkit::model::Model;
use testkit::overadmission::{Bound, Event, Excess, OverAdmission, WorstInterval};
use tollgate::{FailurePolicy, Micros, PermitId, Quota, Rate, Rule, TokenBucket};

use super::record::{CheckRecord, Record};
use super::subjects::{LEDGER, limits};

/// The worst excess of all limits and keys, by the store and by the policy `local`.
#[derive(Debug)]
pub(crate) struct Excesses {
    pub(crate) store: Option<LimitExcess>,
    pub(crate) local: Option<LimitExcess>,
}

/// By how much a limit was exceeded in its worst interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitExcess {
    limit: &'static str,
    key_number: usize,
    /// In units; negative when the bound was kept.
    units: f64,
    /// In whole bursts of the limit, rounded up; 0 when the bound was kept.
    pub(crate) bursts: u64,
}

/// Computes by how much limits were exceeded.
pub(crate) fn excesses(record: &Record) -> Excesses {
    let by_store = |check: &CheckRecord| check.decided_at();
    // A failure policy decides just before the check ends.
    let by_policy = |check: &CheckRecord| {
        check
            .is_degraded
            .then(|| Micros::from_duration_ceil(check.ended))
            .flatten()
    };
    let all = limited();
    let local = all
        .iter()
        .filter(|(_, rule)| rule.on_store_failure() == FailurePolicy::Local);

    Excesses {
        store: worst(
            all.iter()
                .filter_map(|(limit, rule)| limit_excess(record, limit, rule, by_store)),
        ),
        local: worst(
            local.filter_map(|(limit, rule)| limit_excess(record, limit, rule, by_policy)),
        ),
    }
}

/// How many more checks the limits would have allowed if only answered checks had been charged: the
/// sum over all limits and keys of the most by which the model was ahead of the store.
pub(crate) fn false_denials(record: &Record) -> u64 {
    let mut sum = 0;
    for (limit, rule) in limited() {
        for key_number in 0..super::subjects::KEYS {
            let events = events(record, limit, CheckRecord::decided_at).into_iter();
            let own: Vec<_> = events.filter(|event| event.key == key_number).collect();
            for since_flush in own.chunk_by(|a, b| epoch(record, a.at) == epoch(record, b.at)) {
                sum += ahead(*rule.quota(), since_flush);
            }
        }
    }
    sum
}

/// The most by which the number of checks that a model allows was ahead of the store's.
fn ahead(quota: Quota, events: &[Event<usize>]) -> u64 {
    let mut model = Model::new(quota);
    let (mut ahead, mut most) = (0_i64, 0);

    for event in events {
        let passes = model
            .spend(event.cost, event.at, PermitId::NONE)
            .verdict
            .is_allowed();
        ahead += i64::from(passes) - i64::from(event.allowed);
        most = ahead.max(most);
    }
    most.unsigned_abs()
}

fn limit_excess(
    record: &Record,
    limit: &'static str,
    rule: &Rule,
    time: impl Fn(&CheckRecord) -> Option<Micros>,
) -> Option<LimitExcess> {
    let bound = bound(rule.quota())?;
    let WorstInterval { key, excess, .. } =
        OverAdmission::from_log(bound, events(record, limit, time)).worst()?;
    let (numerator, denominator) = excess.parts();

    #[expect(clippy::cast_precision_loss, reason = "it is only printed")]
    let units = numerator as f64 / denominator as f64;
    Some(LimitExcess {
        limit,
        key_number: key,
        units,
        bursts: bursts(excess, rule.quota().limit()),
    })
}

/// An excess in bursts, rounded up; 0 if it is negative.
fn bursts(excess: Excess, burst: u64) -> u64 {
    let (numerator, denominator) = excess.parts();
    let burst = i128::from(burst) * i128::from(denominator);
    u64::try_from((numerator.max(0) + burst - 1) / burst).expect("no load admits so much")
}

/// What a limit allows in an interval. Permits that are not released expire after the permit
/// timeout.
fn bound(quota: &Quota) -> Option<Bound> {
    match quota {
        Quota::Concurrency(concurrency) => Some(Bound::PerWindow {
            limit: quota.limit(),
            window: concurrency.permit_timeout(),
        }),
        _ => Bound::for_quota(quota),
    }
}

fn worst(all: impl Iterator<Item = LimitExcess>) -> Option<LimitExcess> {
    all.max_by(|a, b| a.bursts.cmp(&b.bursts).then(a.units.total_cmp(&b.units)))
}

/// All limits that can deny.
fn limited() -> Vec<(&'static str, Rule)> {
    let rules = limits()
        .into_iter()
        .map(|limit| limit.validate().expect("the limits are valid"));
    let named = super::subjects::LIMITS.into_iter().zip(rules);
    named
        .inspect(|(name, rule)| assert!(*name == rule.name().as_str() && *name != LEDGER))
        .collect()
}

/// The checks of a limit, in the order of time. Of checks at the same time, the allowed ones come
/// first: all checks of a key have the same cost, so after a denial nothing is allowed at that
/// time.
fn events(
    record: &Record,
    limit: &str,
    time: impl Fn(&CheckRecord) -> Option<Micros>,
) -> Vec<Event<usize>> {
    let mut events: Vec<Event<usize>> = record
        .checks
        .iter()
        .filter(|check| record.subjects[check.subject].limit == Some(limit))
        .filter_map(|check| {
            let subject = &record.subjects[check.subject];
            let (key, cost, allowed) = (subject.key_number, subject.cost, check.is_allowed);
            time(check).map(|at| Event {
                at,
                key,
                cost,
                allowed,
            })
        })
        .collect();

    events.sort_by_key(|event| (event.at, !event.allowed));
    events
}

/// How often the store had lost all data before this time.
fn epoch(record: &Record, at: Micros) -> usize {
    record
        .flushed_at
        .iter()
        .filter(|flushed_at| **flushed_at < at)
        .count()
}

impl fmt::Display for Excesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.store {
            Some(store) => write!(f, "{store} by the store")?,
            None => f.write_str("nothing admitted by the store")?,
        }
        self.local
            .map_or(Ok(()), |local| write!(f, "; {local} by the policy local"))
    }
}

impl fmt::Display for LimitExcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            key_number,
            units,
            bursts,
        } = self;
        write!(
            f,
            "{units:.2} ({limit} of key {key_number}, {bursts} bursts)"
        )
    }
}

/// A bucket of three, refilled with five per second, is checked six times in a microsecond.
#[test]
fn excesses_and_false_denials_are_found() {
    let quota =
        Quota::from(TokenBucket::new(3, Rate::per_second(5)).expect("the numbers are valid"));
    let answers = |allowed: usize| -> Vec<Event<usize>> {
        let events = (0..6).map(|index| Event {
            at: Micros::new(7),
            key: 0,
            cost: 1,
            allowed: index < allowed,
        });
        events.collect()
    };
    let worst = |allowed| {
        let bound = bound(&quota).expect("a bucket has one");
        OverAdmission::from_log(bound, answers(allowed))
            .worst()
            .map(|worst| bursts(worst.excess, quota.limit()))
    };

    assert_eq!((worst(3), worst(4), worst(6)), (Some(0), Some(1), Some(1)));
    assert_eq!(
        (ahead(quota, &answers(3)), ahead(quota, &answers(1))),
        (0, 2)
    );
}
