//! Decisions while the store is unavailable: every limit follows its failure policy.
//!
//! This module makes the decisions, keeps the local counters and monitors whether the store is
//! available. It does not know why a store fails, and sets no timers: a store replies
//! within a deadline of its own.

mod local_fallback;
mod log;
mod monitor;

use smallvec::SmallVec;

pub(super) use local_fallback::{LocalFallback, is_denial};
pub(super) use monitor::StoreMonitor;
pub use monitor::{Health, StoreErrors};

use super::store_part::StorePart;
use crate::algorithm::{KeyLock, Outcome, PermitId, Verdict};
use crate::decision::{Decision, LimitOutcome};
use crate::demand::Demand;
use crate::limit::FailurePolicy;
use crate::memory::MemoryStore;
use crate::name::LimitName;
use crate::store::{DegradedReason, Intent, PartList, Refusal, Source};
use crate::time::Micros;

/// The retry time of a limit that denies because the store is unavailable. Stores notice their
/// recovery within this time.
const RECOVERY_TIME: Micros = Micros::from_secs(1);

/// The shortest time for which an outage is recent.
const RECENT_TIME_MIN: Micros = Micros::from_secs(60);

/// How long after an outage what the store admits is charged to the local counter of a demand, too:
/// until the limit's window has passed. Outages that are less than this apart count as one.
pub(super) fn recent_time(demand: &Demand<'_>) -> Micros {
    let window = demand.quota().window().unwrap_or(Micros::ZERO);
    window.max(RECENT_TIME_MIN)
}

/// Where requests are counted while the store is unavailable.
pub(super) struct FallbackStores<'a> {
    /// For limits whose failure policy is `Local`: this process's share of each.
    pub(super) shares: &'a LocalFallback,
    /// For limits whose consistency is `Local`.
    pub(super) local_limits: &'a MemoryStore,
}

/// How a demand is decided while the store is unavailable.
enum DemandFallback<'d> {
    /// By the policy alone.
    Fixed(Outcome),
    /// In this process, by the share of the limit.
    Share(Demand<'d>),
    /// In this process, as always: the limit is local.
    LocalLimit(Demand<'d>),
}

impl FallbackStores<'_> {
    /// Decides a request: all demands that are counted are charged, or none. If a policy denies the
    /// request, nothing is charged.
    pub(super) fn decide(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: Option<PermitId>,
        reason: DegradedReason,
    ) -> Decision {
        let fallbacks: SmallVec<[DemandFallback<'_>; 4]> =
            demands.iter().map(DemandFallback::new).collect();

        let is_denied_by_policy = demands.iter().zip(&fallbacks).any(|(demand, fallback)| {
            let is_denial =
                matches!(fallback, DemandFallback::Fixed(fixed) if !fixed.verdict.is_allowed());
            is_denial && !demand.limit.is_shadow()
        });
        let is_reserved = intent.is_reserve();
        let intent = match intent {
            Intent::Spend | Intent::Reserve { .. } if is_denied_by_policy => Intent::Refuse,
            _ if is_denied_by_policy => Intent::Peek,
            intent => intent,
        };

        let mut counted = self.count(&fallbacks, intent, permit_id.unwrap_or(PermitId::NONE));
        let rows = demands.iter().zip(&fallbacks);
        let limits: SmallVec<[LimitOutcome; 1]> = rows
            .map(|(demand, fallback)| fallback.limit_outcome(demand, reason, &mut counted))
            .collect();

        // A limit whose policy is `Allow` grants no permit.
        let mut pairs = demands.iter().zip(&limits);
        let takes_permit = pairs.any(|(demand, limit)| demand.needs_permit() && limit.is_charged());
        let permit_id = permit_id.filter(|_| takes_permit || is_reserved);
        Decision::new(limits, Source::Fallback, permit_id)
    }

    /// The outcomes of the demands that are counted in this process, in order.
    fn count(
        &self,
        fallbacks: &[DemandFallback<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> impl Iterator<Item = Outcome> + use<> {
        let indexed = || fallbacks.iter().enumerate();
        let local_limits = indexed().filter_map(|(index, fallback)| match fallback {
            DemandFallback::LocalLimit(demand) => Some((index, demand)),
            _ => None,
        });
        let shares: SmallVec<[(usize, Demand<'_>); 4]> = indexed()
            .filter_map(|(index, fallback)| match fallback {
                DemandFallback::Share(share) => Some((index, *share)),
                _ => None,
            })
            .collect();

        let mut parts = PartList::new(permit_id);
        let local_part = StorePart::Memory(self.local_limits, Source::Local);
        parts.push(local_part, local_limits);
        let share_part = StorePart::Memory(self.shares.store(), Source::Fallback);
        parts.push(
            share_part,
            shares.iter().map(|(index, share)| (*index, share)),
        );

        let reply = parts.spend(intent).now().and_then(Result::ok);
        let outcomes = reply.expect("memory stores reply without waiting");
        let outcomes: SmallVec<[Outcome; 4]> = outcomes
            .outcomes()
            .iter()
            .map(|(outcome, _)| *outcome)
            .collect();
        outcomes.into_iter()
    }
}

impl<'d> DemandFallback<'d> {
    fn new(demand: &Demand<'d>) -> Self {
        if demand.key.is_local() {
            Self::LocalLimit(*demand)
        } else if LocalFallback::decides(demand) {
            Self::Share(LocalFallback::share(demand))
        } else {
            Self::Fixed(policy_outcome(demand.limit.on_store_failure(), demand))
        }
    }

    fn limit_outcome(
        &self,
        demand: &Demand<'_>,
        reason: DegradedReason,
        counted: &mut impl Iterator<Item = Outcome>,
    ) -> LimitOutcome {
        let mut next = || counted.next().expect("every other demand was counted");
        let (demand, outcome) = match self {
            Self::LocalLimit(_) => return LimitOutcome::new(demand, next(), Source::Local),
            Self::Share(share) => (share, deny_until_recovery(demand, next())),
            Self::Fixed(outcome) => (demand, *outcome),
        };

        LimitOutcome::new(demand, outcome, Source::Fallback)
            .with_fallback(demand.limit.on_store_failure(), reason)
    }
}

/// Denies a request because of a fault that the store has found: by the limit that it concerns, or
/// if that is unknown by all of them. Nothing is charged, and no failure policy decides.
pub(super) fn refuse(
    demands: &[Demand<'_>],
    refusal: Refusal,
    limit: Option<LimitName>,
) -> Decision {
    let limits = demands.iter().map(|demand| {
        let concerned = limit.is_none_or(|limit| *demand.limit.name() == limit);
        let policy = if concerned {
            FailurePolicy::Deny
        } else {
            FailurePolicy::Allow
        };
        let outcome = LimitOutcome::new(demand, policy_outcome(policy, demand), Source::Store);
        if concerned {
            outcome.with_refusal(refusal)
        } else {
            outcome
        }
    });
    Decision::new(limits.collect(), Source::Store, None)
}

/// Turns "never" into a denial until the store's recovery, if the cost exceeds only the share and
/// not the whole limit.
fn deny_until_recovery(whole: &Demand<'_>, outcome: Outcome) -> Outcome {
    if outcome.verdict == Verdict::Never && whole.cost <= whole.quota().limit() {
        return Outcome {
            verdict: Verdict::Deny {
                retry_after: RECOVERY_TIME,
            },
            ..outcome
        };
    }
    outcome
}

/// The outcome that follows from a policy other than `Local`.
fn policy_outcome(policy: FailurePolicy, demand: &Demand<'_>) -> Outcome {
    let limit = demand.quota().limit();
    let denial = Verdict::Deny {
        retry_after: RECOVERY_TIME,
    };

    let (verdict, remaining, reset_after) = match policy {
        // Such a request cannot pass, whether the store is available or not.
        _ if demand.cost > limit => (Verdict::Never, limit, Micros::ZERO),
        FailurePolicy::Deny => (denial, 0, RECOVERY_TIME),
        FailurePolicy::Allow | FailurePolicy::Local => (Verdict::ALLOW, limit, Micros::ZERO),
    };

    Outcome {
        verdict,
        limit,
        remaining,
        reset_after,
        more_after: Micros::ZERO,
        lock: KeyLock::NONE,
    }
}
