//! Decisions while the store is unavailable: every limit follows its failure policy.
//!
//! This module makes the decisions, keeps the local counters of an outage and monitors whether the
//! store is available. It does not know why a store fails, and sets no timers: a store replies
//! within a deadline of its own.

mod local_fallback;
mod monitor;

use smallvec::SmallVec;

pub(super) use local_fallback::LocalFallback;
pub(super) use monitor::StoreMonitor;
pub use monitor::{Health, StoreErrors};

use super::{Inner, split_store};
use crate::algorithm::{Outcome, PermitId, Quota, Verdict};
use crate::decision::{Decision, LimitOutcome, Source};
use crate::limit::{FailurePolicy, Rule};
use crate::memory::MemoryStore;
use crate::store::{Demand, Intent, StoreError};
use crate::time::Micros;

/// The retry time of a limit that denies because the store is unavailable. Stores notice their
/// recovery within this time.
const RECOVERY_TIME: Micros = Micros::from_secs(1);

/// The outcomes of the demands that are counted in this process, in order.
struct FallbackOutcomes {
    /// Of the limits whose consistency is `Local`.
    local_limits: SmallVec<[Outcome; 1]>,
    /// Of the limits whose failure policy is `Local`, each with this process's share of the quota.
    shares: SmallVec<[(Quota, Outcome); 1]>,
}

/// A decision. If the store failed, also the local counters that it was charged to.
#[derive(Debug)]
pub(super) struct ResolvedDecision {
    pub(super) decision: Decision,
    pub(super) local: Option<LocalFallback>,
}

/// A request as it is sent to the store, with the rule of each demand.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreRequest<'q> {
    pub(super) rules: &'q [&'q Rule],
    pub(super) demands: &'q [Demand<'q>],
    pub(super) intent: Intent,
    pub(super) permit_id: Option<PermitId>,
}

impl Inner {
    /// Decides a request by the limits' failure policies, because the store failed.
    #[cold]
    pub(super) fn fall_back(
        &self,
        request: &StoreRequest<'_>,
        error: &StoreError,
    ) -> ResolvedDecision {
        let now = self.clock.now();
        let local = self.monitor.record_failure(error, now, || {
            LocalFallback::new(self.replicas, self.clock.clone(), now)
        });

        let decision = request.decide(&local, self.local_store.as_ref());
        self.monitor.count_decision(&decision);
        ResolvedDecision {
            decision,
            local: Some(local),
        }
    }
}

impl StoreRequest<'_> {
    fn decide(&self, local: &LocalFallback, local_store: Option<&MemoryStore>) -> Decision {
        let pairs = self.rules.iter().zip(self.demands);
        let fixed: SmallVec<[Option<Outcome>; 4]> = pairs
            .map(|(rule, demand)| {
                if demand.key.is_local() {
                    None
                } else {
                    policy_outcome(rule.on_store_failure(), demand)
                }
            })
            .collect();

        let counted = self.count(&fixed, local, local_store);
        let mut local_limits = counted.local_limits.into_iter();
        let mut shares = counted.shares.into_iter();

        let rows = self.rules.iter().zip(self.demands).zip(&fixed);
        let limits = rows.map(|((rule, demand), fixed)| {
            if demand.key.is_local() {
                let outcome = local_limits.next().expect("every local limit was counted");
                return LimitOutcome::new(rule.name(), demand, outcome, Source::Local);
            }

            let (quota, outcome) = match fixed {
                Some(outcome) => (*demand.quota, *outcome),
                None => shares.next().expect("every other demand was counted"),
            };
            let demand = Demand {
                quota: &quota,
                ..*demand
            };
            LimitOutcome::new(rule.name(), &demand, outcome, Source::Fallback)
                .with_fallback(rule.on_store_failure())
        });
        let limits: SmallVec<[LimitOutcome; 1]> = limits.collect();

        let permit_id = self.permit_id.filter(|_| self.takes_permit(&limits));
        Decision::new(limits, Source::Fallback, permit_id)
    }

    /// Counts the demands without a fixed outcome in this process: those of local limits, and those
    /// whose policy is to count a share. All are charged, or none. If a policy denies the request,
    /// nothing is charged.
    fn count(
        &self,
        fixed: &[Option<Outcome>],
        local: &LocalFallback,
        local_store: Option<&MemoryStore>,
    ) -> FallbackOutcomes {
        let mut intent = if self.is_denied_by_policy(fixed) {
            Intent::Peek
        } else {
            self.intent
        };
        let permit_id = self.permit_id.unwrap_or(PermitId::NONE);

        let pairs = self.demands.iter().zip(fixed);
        let open: SmallVec<[Demand<'_>; 4]> = pairs
            .filter(|(_, outcome)| outcome.is_none())
            .map(|(demand, _)| *demand)
            .collect();
        let (local_demands, share_demands) = split_store::split(&open);
        let Some(local_store) = local_store.filter(|_| !local_demands.is_empty()) else {
            return FallbackOutcomes {
                local_limits: SmallVec::new(),
                shares: local.spend(&share_demands, intent, permit_id),
            };
        };

        let mut local_limits = local_store
            .spend_all(&local_demands, intent, permit_id)
            .outcomes;
        if split_store::is_denied(&local_demands, &local_limits) {
            intent = Intent::Peek;
        }

        let shares = local.spend(&share_demands, intent, permit_id);
        let outcomes: SmallVec<[Outcome; 1]> = shares.iter().map(|(_, outcome)| *outcome).collect();

        // A share denied the request: undo what the local limits have spent.
        if intent == Intent::Spend && split_store::is_denied(&share_demands, &outcomes) {
            split_store::undo_spend(local_store, &local_demands, permit_id);
            local_limits = local_store
                .spend_all(&local_demands, Intent::Peek, permit_id)
                .outcomes;
        }

        FallbackOutcomes {
            local_limits,
            shares,
        }
    }

    /// True when the policy of a limit, not of a shadow limit, denies the request.
    fn is_denied_by_policy(&self, fixed: &[Option<Outcome>]) -> bool {
        let mut pairs = self.demands.iter().zip(fixed);
        pairs.any(|(demand, outcome)| {
            !demand.shadow && outcome.is_some_and(|outcome| !outcome.verdict.is_allowed())
        })
    }

    /// True when a limit counted in this process granted a permit. A limit whose policy is `Allow`
    /// grants none.
    fn takes_permit(&self, limits: &[LimitOutcome]) -> bool {
        let mut pairs = self.demands.iter().zip(limits);
        pairs.any(|(demand, limit)| demand.needs_permit() && limit.is_charged())
    }
}

/// The outcome that follows from the policy alone; `None` when the limit must be counted.
fn policy_outcome(policy: FailurePolicy, demand: &Demand<'_>) -> Option<Outcome> {
    let limit = demand.quota.limit();
    let denial = Verdict::Deny {
        retry_after: RECOVERY_TIME,
    };

    let (verdict, remaining, reset_after) = match policy {
        FailurePolicy::Local => return None,
        // Such a request cannot pass, whether the store is available or not.
        _ if demand.cost > limit => (Verdict::Never, limit, Micros::ZERO),
        FailurePolicy::Allow => (Verdict::ALLOW, limit, Micros::ZERO),
        FailurePolicy::Deny => (denial, 0, RECOVERY_TIME),
    };

    Some(Outcome {
        verdict,
        limit,
        remaining,
        reset_after,
    })
}
