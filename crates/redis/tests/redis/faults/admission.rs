//! What the store, and the policy `local`, let through: more than the limits allow, or less than
//! they must?

use std::fmt;

use testkit::model::Model;
use testkit::overadmission::{Bound, Event, Excess, OverAdmission, WorstInterval};
use tollgate::{FailurePolicy, Micros, PermitId, Quota, Rate, Rule, TokenBucket};

use super::record::{Record, Told};
use super::subjects::{LEDGER, limits};

/// The worst of all limits and keys, by the store and by the policy `local`.
#[derive(Debug)]
pub(crate) struct Excesses {
    pub(crate) store: Option<Over>,
    pub(crate) local: Option<Over>,
}

/// By how much a limit was exceeded, in the interval in which it was exceeded most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over {
    limit: &'static str,
    key_number: usize,
    /// In units; below zero when the bound was kept.
    units: f64,
    /// In whole bursts of the limit, rounded up; 0 when the bound was kept.
    pub(crate) bursts: u64,
}

/// By how much limits were exceeded, in any interval.
pub(crate) fn excesses(record: &Record) -> Excesses {
    let by_store = |told: &Told| told.decided_at();
    // The answer of a policy is made in this process, just before it is told.
    let by_policy = |told: &Told| {
        told.is_degraded
            .then(|| Micros::from_duration_ceil(told.answered))
            .flatten()
    };
    let all = limited();
    let local = all
        .iter()
        .filter(|(_, rule)| rule.on_store_failure() == FailurePolicy::Local);
    Excesses {
        store: worst(
            all.iter()
                .filter_map(|(limit, rule)| over(record, limit, rule, by_store)),
        ),
        local: worst(local.filter_map(|(limit, rule)| over(record, limit, rule, by_policy))),
    }
}

/// How many more the limits would have let through if only what was answered had been charged: for
/// each limit and key, the most by which the model was ever ahead of the store.
pub(crate) fn false_denials(record: &Record) -> u64 {
    let mut sum = 0;
    for (limit, rule) in limited() {
        for key_number in 0..super::subjects::KEYS {
            let events = events(record, limit, Told::decided_at).into_iter();
            let own: Vec<_> = events.filter(|event| event.key == key_number).collect();
            for since_forgotten in own.chunk_by(|a, b| epoch(record, a.at) == epoch(record, b.at)) {
                sum += ahead(*rule.quota(), since_forgotten);
            }
        }
    }
    sum
}

/// How many more of the requests than the store a model lets through, at the moment at which that
/// is most.
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

fn over(
    record: &Record,
    limit: &'static str,
    rule: &Rule,
    moment: impl Fn(&Told) -> Option<Micros>,
) -> Option<Over> {
    let bound = bound(rule.quota())?;
    let WorstInterval { key, excess, .. } =
        OverAdmission::of(bound, events(record, limit, moment)).worst()?;
    let (numerator, denominator) = excess.parts();
    #[expect(clippy::cast_precision_loss, reason = "it is only shown")]
    let units = numerator as f64 / denominator as f64;
    Some(Over {
        limit,
        key_number: key,
        units,
        bursts: bursts(excess, rule.quota().limit()),
    })
}

/// How many bursts an excess comes to, rounded up; none below zero.
fn bursts(excess: Excess, burst: u64) -> u64 {
    let (numerator, denominator) = excess.parts();
    let burst = i128::from(burst) * i128::from(denominator);
    u64::try_from((numerator.max(0) + burst - 1) / burst).expect("no load admits so much")
}

/// What a limit allows in an interval. Places that nobody gives back are free again when their
/// leases run out.
fn bound(quota: &Quota) -> Option<Bound> {
    match quota {
        Quota::Concurrency(places) => Some(Bound::PerWindow {
            limit: quota.limit(),
            window: places.permit_timeout(),
        }),
        _ => Bound::for_quota(quota),
    }
}

fn worst(all: impl Iterator<Item = Over>) -> Option<Over> {
    all.max_by(|a, b| a.bursts.cmp(&b.bursts).then(a.units.total_cmp(&b.units)))
}

/// Every limit that can refuse.
fn limited() -> Vec<(&'static str, Rule)> {
    let rules = limits()
        .into_iter()
        .map(|limit| limit.rule().expect("the limits are right"));
    let named = super::subjects::LIMITS.into_iter().zip(rules);
    named
        .inspect(|(name, rule)| assert!(*name == &*rule.name() && *name != LEDGER))
        .collect()
}

/// What was asked of a limit, in the order of time. Of what happened at one moment, what passed
/// came first: a key always pays the same, so after a refusal nothing passes at that moment.
fn events(
    record: &Record,
    limit: &str,
    moment: impl Fn(&Told) -> Option<Micros>,
) -> Vec<Event<usize>> {
    let mut events: Vec<Event<usize>> = record
        .told
        .iter()
        .filter(|told| record.subjects[told.subject].limit == Some(limit))
        .filter_map(|told| {
            let subject = &record.subjects[told.subject];
            let (key, cost, allowed) = (subject.key_number, subject.cost, told.is_allowed);
            moment(told).map(|at| Event {
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

/// How often the store had forgotten everything before this moment.
fn epoch(record: &Record, at: Micros) -> usize {
    record
        .forgotten
        .iter()
        .filter(|forgotten| **forgotten < at)
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

impl fmt::Display for Over {
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

/// Five a second, three at once, asked six times within a microsecond.
#[test]
fn what_is_wrong_shows() {
    let quota =
        Quota::from(TokenBucket::new(3, Rate::per_second(5)).expect("the numbers are right"));
    let answers = |allowed: usize| -> Vec<Event<usize>> {
        let events = (0..6).map(|place| Event {
            at: Micros::new(7),
            key: 0,
            cost: 1,
            allowed: place < allowed,
        });
        events.collect()
    };
    let worst = |allowed| {
        let bound = bound(&quota).expect("a bucket has one");
        OverAdmission::of(bound, answers(allowed))
            .worst()
            .map(|worst| bursts(worst.excess, quota.limit()))
    };
    assert_eq!((worst(3), worst(4), worst(6)), (Some(0), Some(1), Some(1)));
    assert_eq!(
        (ahead(quota, &answers(3)), ahead(quota, &answers(1))),
        (0, 2)
    );
}
