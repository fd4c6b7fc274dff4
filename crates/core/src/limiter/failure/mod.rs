//! What limits answer when the store gives no answer: each by its own policy.
//!
//! Owns the decision by policy, the counters of an outage and the watch over the store's state.
//! Knows nothing of why a store fails, and sets no timer: a store answers within a deadline of its
//! own.

mod local;
mod watch;

use smallvec::SmallVec;

pub(super) use local::Local;
pub(super) use watch::Watch;
pub use watch::{Health, StoreErrors};

use super::{Inner, split_store};
use crate::algorithm::{Outcome, PermitId, Quota, Verdict};
use crate::decision::{Decision, LimitOutcome, Source};
use crate::limit::{FailurePolicy, Rule};
use crate::memory::MemoryStore;
use crate::store::{Demand, Intent, StoreError};
use crate::time::Micros;

/// When to come back to a limit that refuses because the store is away: stores notice within this
/// time that they are back.
const RECOVERY: Micros = Micros::from_secs(1);

/// What this process's own limits say, and what those say that count their share here, with that
/// share.
type Counted = (SmallVec<[Outcome; 1]>, SmallVec<[(Quota, Outcome); 1]>);

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
    pub(super) checks: &'q [Demand<'q>],
    pub(super) intent: Intent,
    pub(super) lease: Option<PermitId>,
}

impl Inner {
    /// Answers a question that the store did not.
    #[cold]
    pub(super) fn fall_back(&self, question: &Question<'_>, error: &StoreError) -> Settled {
        let now = self.clock.now();
        let local = self.watch.failed(error, now, || {
            Local::new(self.replicas, self.clock.clone(), now)
        });
        let decision = question.decide(&local, self.own.as_ref());
        self.watch.decided(&decision);
        Settled {
            decision,
            local: Some(local),
        }
    }
}

impl Question<'_> {
    fn decide(&self, outage: &Local, own: Option<&MemoryStore>) -> Decision {
        let both = self.rules.iter().zip(self.checks);
        let stated: SmallVec<[Option<Outcome>; 4]> = both
            .map(|(rule, check)| {
                if check.key.is_local() {
                    None
                } else {
                    stated(rule.on_store_failure(), check)
                }
            })
            .collect();
        let (owned, counted) = self.count(&stated, outage, own);
        let (mut owned, mut counted) = (owned.into_iter(), counted.into_iter());
        let answers = self.rules.iter().zip(self.checks).zip(&stated);
        let statuses = answers.map(|((rule, check), stated)| {
            if check.key.is_local() {
                let outcome = owned
                    .next()
                    .expect("every check of this process was counted");
                return LimitOutcome::new(rule.name(), check, outcome, Source::Local);
            }
            let (quota, outcome) = match stated {
                Some(outcome) => (*check.quota, *outcome),
                None => counted
                    .next()
                    .expect("every check that no policy answered was counted"),
            };
            let check = Demand {
                quota: &quota,
                ..*check
            };
            LimitOutcome::new(rule.name(), &check, outcome, Source::Fallback)
                .by_policy(rule.on_store_failure())
        });
        let statuses: SmallVec<[LimitOutcome; 1]> = statuses.collect();
        let lease = self.lease.filter(|_| self.holds(&statuses));
        Decision::new(statuses, Source::Fallback, lease)
    }

    /// What the limits say that no policy answered: those of this process, and those that count
    /// their share here until the store is back. All of them give, or none; where a policy refuses
    /// the request, they are only looked at.
    fn count(
        &self,
        stated: &[Option<Outcome>],
        outage: &Local,
        own: Option<&MemoryStore>,
    ) -> Counted {
        let both = || self.checks.iter().zip(stated);
        let denies = |(check, outcome): (&Demand<'_>, &Option<Outcome>)| {
            !check.shadow && outcome.is_some_and(|outcome| !outcome.verdict.is_allowed())
        };
        let mut intent = if both().any(denies) {
            Intent::Peek
        } else {
            self.intent
        };
        let lease = self.lease.unwrap_or(PermitId::NONE);
        let open = both()
            .filter(|(_, outcome)| outcome.is_none())
            .map(|(check, _)| *check);
        let (mine, shares) = split_store::split(&open.collect::<SmallVec<[Demand<'_>; 4]>>());
        let Some(own) = own.filter(|_| !mine.is_empty()) else {
            return (SmallVec::new(), outage.spend(&shares, intent, lease));
        };
        let mut owned = own.spend_together(&mine, intent, lease).outcomes;
        if split_store::refuses(&mine, &owned) {
            intent = Intent::Peek;
        }
        let counted = outage.spend(&shares, intent, lease);
        let outcomes: SmallVec<[Outcome; 1]> =
            counted.iter().map(|(_, outcome)| *outcome).collect();
        if intent == Intent::Spend && split_store::refuses(&shares, &outcomes) {
            split_store::give_back(own, &mine, lease);
            owned = own.spend_together(&mine, Intent::Peek, lease).outcomes;
        }
        (owned, counted)
    }

    /// True when a pass takes a place among the local ones. What a policy lets through takes none.
    fn holds(&self, statuses: &[LimitOutcome]) -> bool {
        let mut both = self.checks.iter().zip(statuses);
        both.any(|(check, status)| check.needs_permit() && status.counts())
    }
}

/// What a limit answers by its policy alone; `None` when it must count.
fn stated(policy: FailurePolicy, check: &Demand<'_>) -> Option<Outcome> {
    let limit = check.quota.limit();
    let (verdict, remaining, reset_after) = match policy {
        FailurePolicy::Local => return None,
        // No store is needed to know that this cannot pass, and it will not pass when the store is
        // back.
        _ if check.cost > limit => (Verdict::Never, limit, Micros::ZERO),
        FailurePolicy::Allow => (Verdict::ALLOW, limit, Micros::ZERO),
        FailurePolicy::Deny => (
            Verdict::Deny {
                retry_after: RECOVERY,
            },
            0,
            RECOVERY,
        ),
    };
    Some(Outcome {
        verdict,
        limit,
        remaining,
        reset_after,
    })
}
