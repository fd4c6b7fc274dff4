//! Demands of leased and eventual limits: decided by the leases of this instance if possible, else
//! by the store.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate::algorithm::KeyLock;
use tollgate::store::lease::{LeaseCall, LeaseOutcome, LeaseStep};
use tollgate::store::{Intent, Part, PartList, SpendReply, StoreFuture};
use tollgate::{
    Consistency, Demand, DemandBuf, Micros, Outcome, PermitId, Source, StoreError, Verdict,
};

use super::lease_calls::LeaseCaller;
use super::strict::pending;
use crate::wire::DemandTerms;

/// True for demands that may be decided without a store call.
#[inline]
pub(super) fn is_leased(demand: &Demand<'_>) -> bool {
    matches!(
        demand.key.consistency(),
        Consistency::Leased | Consistency::Eventual
    )
}

/// True for demands that a lease can decide: reading a counter takes a store call.
fn may_be_leased(demand: &Demand<'_>) -> bool {
    is_leased(demand) && demand.cost > 0
}

/// True when a lease denies one of the demands, and its limit is not a shadow limit.
fn is_denied(demands: &[Demand<'_>], by_leases: &[Option<LeaseOutcome>]) -> bool {
    let mut rows = demands.iter().zip(by_leases);
    rows.any(|(demand, outcome)| {
        let is_denied = outcome.is_some_and(|decided| !decided.outcome.verdict.is_allowed());
        is_denied && !demand.limit.is_shadow()
    })
}

impl LeaseCaller {
    /// Spends a single demand. If the lease is not sufficient, the request makes a lease call that
    /// asks for more units than it needs, or waits for the call of another request for up to half of
    /// its time.
    pub(super) fn spend<'a>(
        self: &'a Arc<Self>,
        demand: &Demand<'_>,
    ) -> StoreFuture<'a, SpendReply> {
        let (demand, deadline) = (demand.to_buf(), self.router.deadline());
        let wait_until = deadline - self.router.connector.decision_timeout / 2;
        self.ensure_sweeper();

        pending(async move {
            let demand = demand.as_demand();
            loop {
                match self.leases.spend(&demand) {
                    LeaseStep::Decided(outcome, renewal) => {
                        self.renew(renewal);
                        return Ok(outcome.into());
                    }
                    LeaseStep::Call(call) => {
                        let outcome = self.start_call(call, deadline).await;
                        let terms = [DemandTerms::new(&demand)];
                        return Ok(outcome.map_err(|error| error.for_demands(&terms))?.into());
                    }
                    LeaseStep::Wait(call) if Instant::now() < wait_until => {
                        // The server does not reply. A call after it would be charged and not be
                        // answered in time.
                        if !call.completion().await {
                            return Err(StoreError::Timeout);
                        }
                    }
                    LeaseStep::Wait(_) | LeaseStep::Strict(_) => break,
                }
            }
            self.spend_at_store(&demand, deadline).await
        })
    }

    /// Spends a single demand without waiting for a lease call.
    async fn spend_at_store(
        self: &Arc<Self>,
        demand: &Demand<'_>,
        deadline: Instant,
    ) -> Result<SpendReply, StoreError> {
        if let Some(decided) = self.spend_locally(demand) {
            return Ok(decided.into());
        }

        let demands = std::slice::from_ref(demand);
        self.spend_strictly(demands, Intent::Spend, PermitId::NONE, deadline)
            .await
    }

    /// Decides demands at the store, and caches what it denies.
    async fn spend_strictly(
        self: &Arc<Self>,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
        deadline: Instant,
    ) -> Result<SpendReply, StoreError> {
        let call = self.router.spend(demands, intent, permit_id, deadline);
        let reply = call.await?;
        for (demand, (outcome, _)) in demands.iter().zip(reply.outcomes()) {
            if is_leased(demand) && !outcome.verdict.is_allowed() {
                self.leases.cache_denial(demand, outcome);
            }
        }
        Ok(reply)
    }

    /// Peeks at the store, and adds the units that this instance holds to the outcomes.
    pub(super) fn peek<'a>(
        self: &'a Arc<Self>,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        let owned: SmallVec<[DemandBuf; 4]> = demands.iter().map(Demand::to_buf).collect();
        let deadline = self.router.deadline();
        let reply = self.router.spend(demands, intent, permit_id, deadline);

        pending(async move {
            let mut reply = reply.await?;
            let mut counters = std::mem::take(&mut reply.counters);
            for (index, (outcome, _)) in reply.outcomes_mut().iter_mut().enumerate() {
                let demand = owned[index].as_demand();
                if is_leased(&demand) {
                    let counter = counters.get_mut(index);
                    *outcome = self.leases.add_local_units(&demand, *outcome, counter);
                }
            }
            reply.counters = counters;
            Ok(reply)
        })
    }

    /// Spends several demands, all or none. Demands that a lease covers are spent here first. The
    /// others are spent at the store in one call, and if they are denied, the spends here are
    /// undone.
    pub(super) fn spend_several(
        self: &Arc<Self>,
        demands: &[Demand<'_>],
        permit_id: PermitId,
    ) -> StoreFuture<'static, SpendReply> {
        self.ensure_sweeper();
        let by_leases: SmallVec<[Option<LeaseOutcome>; 4]> = demands
            .iter()
            .map(|demand| self.spend_locally(demand))
            .collect();

        if is_denied(demands, &by_leases) {
            return self.deny_all(demands, &by_leases, permit_id);
        }

        let decided: SmallVec<[LeaseOutcome; 4]> = by_leases.iter().flatten().copied().collect();
        if decided.len() == demands.len() {
            return StoreFuture::ready(Ok(lease_reply(&decided)));
        }

        let deadline = self.router.deadline();
        let part = |by_leases| JointPart {
            caller: self.clone(),
            deadline,
            by_leases,
        };
        let rows = || demands.iter().enumerate();
        let mut parts = PartList::new(permit_id);
        let by_lease = rows().filter(|(index, _)| by_leases[*index].is_some());
        parts.push(part(Some(decided)), by_lease);
        let by_store = rows().filter(|(index, _)| by_leases[*index].is_none());
        parts.push(part(None), by_store);
        parts.spend(Intent::Spend)
    }

    /// Spends several demands from leases without waiting, all or none. `None` if a store call is
    /// needed; then nothing has been charged.
    pub(super) fn try_spend_several(
        self: &Arc<Self>,
        demands: &[Demand<'_>],
    ) -> Option<SpendReply> {
        let can_decide = |demand| may_be_leased(demand) && self.leases.can_decide(demand);
        if !demands.iter().all(can_decide) {
            return None;
        }

        let mut by_leases: SmallVec<[Option<LeaseOutcome>; 4]> = SmallVec::new();
        for demand in demands {
            let decided = self.leases.try_spend_in_request(demand);
            // Another thread may have spent the units since.
            let Some((outcome, renewal)) = decided else {
                for (demand, decided) in demands.iter().zip(by_leases.iter().flatten()) {
                    self.undo_spend(demand, decided);
                }
                return None;
            };
            by_leases.push(Some(outcome));
            self.renew(renewal.map(|call| *call));
        }

        if is_denied(demands, &by_leases) {
            return Some(self.deny(demands, &by_leases));
        }
        let decided: SmallVec<[LeaseOutcome; 4]> = by_leases.into_iter().flatten().collect();
        Some(lease_reply(&decided))
    }

    /// Spends a demand from the lease without waiting. `None` if the store must decide.
    fn spend_locally(self: &Arc<Self>, demand: &Demand<'_>) -> Option<LeaseOutcome> {
        if !may_be_leased(demand) {
            return None;
        }

        let (outcome, renewal) = match self.leases.spend_in_request(demand) {
            LeaseStep::Decided(outcome, renewal) => (Some(outcome), renewal),
            LeaseStep::Strict(renewal) => (None, renewal),
            LeaseStep::Wait(_) | LeaseStep::Call(_) => (None, None),
        };
        self.renew(renewal);
        outcome
    }

    fn renew(self: &Arc<Self>, renewal: Option<LeaseCall>) {
        if let Some(call) = renewal {
            self.call_in_background(call);
        }
    }

    /// Denies a request by a denial that is known here. Other limits with a lockout must count
    /// their own denials, so they ask the store.
    fn deny_all(
        self: &Arc<Self>,
        demands: &[Demand<'_>],
        by_leases: &[Option<LeaseOutcome>],
        permit_id: PermitId,
    ) -> StoreFuture<'static, SpendReply> {
        let mut reply = self.deny(demands, by_leases);
        let has_lockout = |index: &usize| demands[*index].limit.lockout().is_some();
        let counting: SmallVec<[usize; 4]> = (0..demands.len()).filter(has_lockout).collect();
        if counting.is_empty() {
            return StoreFuture::ready(Ok(reply));
        }

        let refused: SmallVec<[Demand<'_>; 4]> = counting.iter().map(|at| demands[*at]).collect();
        let deadline = self.router.deadline();
        let call = self
            .router
            .spend(&refused, Intent::Refuse, permit_id, deadline);
        pending(async move {
            let refused = call.await?;
            for (index, outcome) in counting.into_iter().zip(refused.outcomes()) {
                reply.outcomes_mut()[index] = *outcome;
            }
            Ok(reply)
        })
    }

    /// Denies a request by a denial that is known here. No store call is made for the other
    /// demands, so their outcomes show the full limit.
    fn deny(
        self: &Arc<Self>,
        demands: &[Demand<'_>],
        by_leases: &[Option<LeaseOutcome>],
    ) -> SpendReply {
        let pairs = demands.iter().zip(by_leases);
        let outcomes = pairs.map(|(demand, decided)| match decided {
            Some(decided) => (self.undo_spend(demand, decided), decided.source),
            None => (full(demand.quota().limit()), Source::DenyCache),
        });
        SpendReply::from_sources(outcomes, latest(by_leases.iter().flatten()))
    }

    /// Undoes a spend from a lease. Returns the corrected outcome.
    fn undo_spend(self: &Arc<Self>, demand: &Demand<'_>, decided: &LeaseOutcome) -> Outcome {
        let mut outcome = decided.outcome;
        if outcome.verdict.is_allowed() {
            if !self.leases.undo_spend(demand, decided) {
                drop(self.router.refund(std::slice::from_ref(demand)));
            }
            let remaining = outcome.remaining.saturating_add(demand.cost);
            outcome.remaining = remaining.min(outcome.limit);
        }
        outcome
    }
}

/// A part of a request with several demands, some of which leases have decided.
struct JointPart {
    caller: Arc<LeaseCaller>,
    deadline: Instant,
    /// The outcomes of demands that have been spent from leases. `None` for the demands that the
    /// store decides, which come last, so that their charges are never undone.
    by_leases: Option<SmallVec<[LeaseOutcome; 4]>>,
}

impl Part for JointPart {
    async fn spend(
        &mut self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> Result<SpendReply, StoreError> {
        if let Some(decided) = &self.by_leases {
            return Ok(lease_reply(decided));
        }

        self.caller
            .spend_strictly(demands, intent, permit_id, self.deadline)
            .await
    }

    fn undo(
        &mut self,
        demands: &[Demand<'_>],
        reply: &SpendReply,
        _: Intent,
        _: PermitId,
    ) -> SpendReply {
        let decided = self.by_leases.iter().flatten();
        let outcomes = demands
            .iter()
            .zip(decided)
            .map(|(demand, decided)| (self.caller.undo_spend(demand, decided), decided.source));
        SpendReply::from_sources(outcomes, reply.at)
    }
}

fn lease_reply(decided: &[LeaseOutcome]) -> SpendReply {
    let outcomes = decided
        .iter()
        .map(|decided| (decided.outcome, decided.source));
    SpendReply::from_sources(outcomes, latest(decided))
}

/// The outcome of a limit that has not been used.
fn full(limit: u64) -> Outcome {
    Outcome {
        verdict: Verdict::ALLOW,
        limit,
        remaining: limit,
        reset_after: Micros::ZERO,
        more_after: Micros::ZERO,
        lock: KeyLock::NONE,
    }
}

/// The time of the latest outcome.
fn latest<'d>(decided: impl IntoIterator<Item = &'d LeaseOutcome>) -> Micros {
    let times = decided.into_iter().map(|decided| decided.at);
    times.max().unwrap_or_default()
}
