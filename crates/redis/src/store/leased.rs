//! Demands of leased and eventual limits: decided by the leases of this instance if possible, else
//! by the store.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::timeout_at;
use tollgate::lease::{LeaseOutcome, LeaseStep};
use tollgate::store::{Intent, OutcomeSources, SpendReply, StoreFuture};
use tollgate::{
    Consistency, Demand, DemandBuf, Micros, Outcome, PermitId, Source, StoreError, Verdict,
};

use super::lease_calls::LeaseCaller;
use super::router::join;
use super::strict::pending;

/// How often a request waits for the lease call of another request before it calls the store
/// itself.
const WAITS_MAX: usize = 3;

/// True for demands that may be decided without a store call.
#[inline]
pub(super) fn is_leased(demand: &Demand<'_>) -> bool {
    matches!(
        demand.key.consistency(),
        Consistency::Leased | Consistency::Eventual
    )
}

impl LeaseCaller {
    /// Spends a single demand. If the lease is not sufficient, the request makes a lease call that
    /// asks for more units than it needs, or waits for the call of another request.
    pub(super) fn spend<'a>(
        self: &'a Arc<Self>,
        demand: &Demand<'_>,
    ) -> StoreFuture<'a, SpendReply> {
        let (demand, deadline) = (demand.to_buf(), self.router.deadline());
        self.ensure_sweeper();

        pending(async move {
            for _ in 0..WAITS_MAX {
                match self.leases.spend(&demand.as_demand()) {
                    LeaseStep::Decided(outcome, renewal) => {
                        if let Some(call) = renewal {
                            self.call_in_background(call);
                        }
                        return Ok(outcome.into());
                    }
                    LeaseStep::Call(call) => {
                        return Ok(join(self.spawn_call(call, deadline)).await?.into());
                    }
                    LeaseStep::Wait(call) => {
                        let completed = timeout_at(deadline, call.completion()).await;
                        completed.map_err(|_| StoreError::Timeout)?;
                    }
                    LeaseStep::Strict(_) => break,
                }
            }

            self.router
                .spend(&[demand.as_demand()], Intent::Spend, PermitId::NONE)
                .await
        })
    }

    /// Peeks at the store, and adds the units that this instance holds to the outcomes.
    pub(super) fn peek<'a>(
        self: &'a Arc<Self>,
        demands: &[Demand<'_>],
        permit_id: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        let owned: SmallVec<[DemandBuf; 4]> = demands.iter().map(Demand::to_buf).collect();
        let reply = self.router.spend(demands, Intent::Peek, permit_id);

        pending(async move {
            let mut reply = reply.await?;
            for (demand, outcome) in owned.iter().zip(&mut reply.outcomes) {
                let demand = demand.as_demand();
                if is_leased(&demand) {
                    *outcome = self.leases.add_local_units(&demand, *outcome);
                }
            }
            Ok(reply)
        })
    }

    /// Spends several demands, all or none. Demands that a lease covers are spent here first. The
    /// others are spent at the store in one call, and if they are denied, the spends here are
    /// undone.
    pub(super) fn spend_several<'a>(
        self: &'a Arc<Self>,
        demands: &[Demand<'_>],
        permit_id: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        self.ensure_sweeper();
        let joint = JointSpend {
            caller: self,
            demands: demands.iter().map(Demand::to_buf).collect(),
            local: demands
                .iter()
                .map(|demand| self.spend_locally(demand))
                .collect(),
        };
        if joint.is_denied_locally() {
            return StoreFuture::ready(Ok(joint.deny()));
        }

        let at_store: SmallVec<[Demand<'_>; 4]> = demands
            .iter()
            .zip(&joint.local)
            .filter(|(_, local)| local.is_none())
            .map(|(demand, _)| *demand)
            .collect();
        if at_store.is_empty() {
            let reply = SpendReply::by_store(SmallVec::new(), Micros::ZERO);
            return StoreFuture::ready(Ok(joint.merge(reply)));
        }

        match self.router.spend(&at_store, Intent::Spend, permit_id) {
            StoreFuture::Ready(reply) => StoreFuture::Ready(reply.map(|reply| joint.settle(reply))),
            StoreFuture::Pending(reply) => pending(async move { joint.settle(reply.await) }),
        }
    }

    /// Spends one of several demands from the lease. `None` if the store must decide.
    fn spend_locally(self: &Arc<Self>, demand: &Demand<'_>) -> Option<LeaseOutcome> {
        if !is_leased(demand) || demand.cost == 0 {
            return None;
        }

        let (outcome, renewal) = match self.leases.spend_in_request(demand) {
            LeaseStep::Decided(outcome, renewal) => (Some(outcome), renewal),
            LeaseStep::Strict(renewal) => (None, renewal),
            LeaseStep::Wait(_) | LeaseStep::Call(_) => (None, None),
        };
        if let Some(call) = renewal {
            self.call_in_background(call);
        }
        outcome
    }
}

/// A request with several demands, some of which were decided by leases.
struct JointSpend<'s> {
    caller: &'s Arc<LeaseCaller>,
    demands: SmallVec<[DemandBuf; 4]>,
    /// For each demand, the outcome by the lease. `None` if the store decides.
    local: SmallVec<[Option<LeaseOutcome>; 4]>,
}

impl JointSpend<'_> {
    fn is_denied_locally(&self) -> bool {
        let mut demands = self.demands.iter().zip(&self.local);
        demands.any(|(demand, local)| {
            !demand.shadow && local.is_some_and(|local| !local.outcome.verdict.is_allowed())
        })
    }

    /// Completes the request with the reply of the store.
    fn settle(self, reply: Result<SpendReply, StoreError>) -> Result<SpendReply, StoreError> {
        let is_allowed = reply.as_ref().is_ok_and(|reply| self.cache_denials(reply));
        let joint = if is_allowed { self } else { self.undo() };
        reply.map(|reply| joint.merge(reply))
    }

    /// Enters the store's denials into the lease table. Returns true when the store allows.
    fn cache_denials(&self, reply: &SpendReply) -> bool {
        let at_store = self
            .demands
            .iter()
            .zip(&self.local)
            .filter(|(_, local)| local.is_none());

        let mut is_allowed = true;
        for ((demand, _), outcome) in at_store.zip(&reply.outcomes) {
            if outcome.verdict.is_allowed() {
                continue;
            }
            is_allowed &= demand.shadow;
            let demand = demand.as_demand();
            if is_leased(&demand) {
                self.caller.leases.cache_denial(&demand, outcome);
            }
        }
        is_allowed
    }

    /// Denies the request by a denial that is known here. No store call is made for the other
    /// demands, so their outcomes show the full limit.
    fn deny(self) -> SpendReply {
        let joint = self.undo();
        let full = |demand: &DemandBuf| {
            let limit = demand.quota.limit();
            Outcome {
                verdict: Verdict::ALLOW,
                limit,
                remaining: limit,
                reset_after: Micros::ZERO,
            }
        };
        let demands = joint.demands.iter().zip(&joint.local);
        let outcomes = demands.map(|(demand, local)| match local {
            Some(local) => local.outcome,
            None => full(demand),
        });

        let mut sources = OutcomeSources::all(Source::DenyCache);
        for (index, local) in joint.local.iter().enumerate() {
            if let Some(local) = local {
                sources.set(index, local.source);
            }
        }
        let at = joint.local.iter().flatten().map(|local| local.at).max();
        SpendReply {
            outcomes: outcomes.collect(),
            sources,
            at: at.unwrap_or_default(),
        }
    }

    /// Undoes the spends from leases, and corrects their outcomes.
    fn undo(mut self) -> Self {
        for (demand, local) in self.demands.iter().zip(&mut self.local) {
            let Some(local) = local
                .as_mut()
                .filter(|local| local.outcome.verdict.is_allowed())
            else {
                continue;
            };

            let demand = demand.as_demand();
            if !self.caller.leases.undo_spend(&demand, local) {
                drop(self.caller.router.refund(&[demand]));
            }
            let Outcome {
                limit, remaining, ..
            } = local.outcome;
            local.outcome.remaining = remaining.saturating_add(demand.cost).min(limit);
        }
        self
    }

    /// Merges the outcomes by leases and by the store, in the order of the request.
    fn merge(&self, reply: SpendReply) -> SpendReply {
        let mut by_store = reply.outcomes.into_iter();
        let (mut sources, mut at) = (OutcomeSources::default(), reply.at);

        let outcomes = self.local.iter().enumerate().filter_map(|(index, local)| {
            let Some(local) = local else {
                return by_store.next();
            };
            sources.set(index, local.source);
            at = at.max(local.at);
            Some(local.outcome)
        });
        SpendReply {
            outcomes: outcomes.collect(),
            sources,
            at,
        }
    }
}
