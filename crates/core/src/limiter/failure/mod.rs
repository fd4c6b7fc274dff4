//! What limits answer when the store gives no answer: each by its own policy.
//!
//! Owns the decision by policy, the counters of an outage and the watch over the store's state. Knows nothing of why a
//! store fails, and sets no timer: a store answers within a deadline of its own.

mod local;
mod watch;

use smallvec::SmallVec;

pub(super) use local::Local;
pub(super) use watch::Watch;
pub use watch::{Health, StoreErrors};

use super::Inner;
use crate::algorithm::{LeaseId, Outcome, Quota, Verdict};
use crate::decision::{Decision, LimitStatus, Source};
use crate::limit::{OnStoreFailure, Rule};
use crate::store::{Check, Intent, StoreError};
use crate::time::Micros;

/// When to come back to a limit that refuses because the store is away: stores notice within this time that they are
/// back.
const RECOVERY: Micros = Micros::from_secs(1);

/// A decision, and the counters of the outage that it was charged to if the store did not make it.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) decision: Decision,
    pub(super) local: Option<Local>,
}

/// A question that was put to the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'q> {
    pub(super) rules: &'q [&'q Rule],
    pub(super) checks: &'q [Check<'q>],
    pub(super) intent: Intent,
    pub(super) lease: Option<LeaseId>,
}

impl Inner {
    /// Answers a question that the store did not.
    #[cold]
    pub(super) fn fall_back(&self, question: &Question<'_>, error: &StoreError) -> Settled {
        let now = self.clock.now();
        let local = self.watch.failed(error, now, || Local::new(self.replicas, self.clock.clone(), now));
        let decision = question.decide(&local);
        self.watch.decided(&decision);
        Settled { decision, local: Some(local) }
    }
}

impl Question<'_> {
    fn decide(&self, local: &Local) -> Decision {
        let both = self.rules.iter().zip(self.checks);
        let stated: SmallVec<[Option<Outcome>; 4]> =
            both.map(|(rule, check)| stated(rule.on_store_failure(), check)).collect();
        let mut counted = self.count(&stated, local).into_iter();
        let answers = self.rules.iter().zip(self.checks).zip(&stated);
        let statuses = answers.map(|((rule, check), stated)| {
            let (quota, outcome) = match stated {
                Some(outcome) => (*check.quota, *outcome),
                None => counted.next().expect("every check that no policy answered was counted"),
            };
            LimitStatus::new(rule.name(), &quota, outcome, check.shadow).by_policy(rule.on_store_failure())
        });
        let statuses: SmallVec<[LimitStatus; 1]> = statuses.collect();
        let lease = self.lease.filter(|_| self.holds(&statuses));
        Decision::new(statuses, Source::Fallback, lease)
    }

    /// What the limits say that no policy answered. Where a policy refuses the request, they are only looked at.
    fn count(&self, stated: &[Option<Outcome>], local: &Local) -> SmallVec<[(Quota, Outcome); 1]> {
        let both = || self.checks.iter().zip(stated);
        let denies = |(check, outcome): (&Check<'_>, &Option<Outcome>)| {
            !check.shadow && outcome.is_some_and(|outcome| !outcome.verdict.is_allowed())
        };
        let intent = if both().any(denies) { Intent::Peek } else { self.intent };
        let open = both().filter(|(_, outcome)| outcome.is_none()).map(|(check, _)| *check);
        let open: SmallVec<[Check<'_>; 4]> = open.collect();
        local.spend(&open, intent, self.lease.unwrap_or(LeaseId::NONE))
    }

    /// True when a pass takes a place among the local ones. What a policy lets through takes none.
    fn holds(&self, statuses: &[LimitStatus]) -> bool {
        let mut both = self.checks.iter().zip(statuses);
        both.any(|(check, status)| check.takes_place() && status.counts())
    }
}

/// What a limit answers by its policy alone; `None` when it must count.
fn stated(policy: OnStoreFailure, check: &Check<'_>) -> Option<Outcome> {
    let limit = check.quota.limit();
    let (verdict, remaining, reset_after) = match policy {
        OnStoreFailure::Local => return None,
        // No store is needed to know that this cannot pass, and it will not pass when the store is back.
        _ if check.cost > limit => (Verdict::Never, limit, Micros::ZERO),
        OnStoreFailure::Allow => (Verdict::ALLOW, limit, Micros::ZERO),
        OnStoreFailure::Deny => (Verdict::Deny { retry_after: RECOVERY }, 0, RECOVERY),
    };
    Some(Outcome { verdict, limit, remaining, reset_after })
}
