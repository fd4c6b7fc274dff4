//! A store made of two: a memory store for local limits, and the shared store for all others.
//!
//! A request over both is still all-or-nothing. The local counters are charged first, because they
//! reply without a store call. If the shared store then denies the request or fails, the local
//! charge is undone. Meanwhile other requests may see fewer local units than there are, but never
//! more.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::algorithm::{Outcome, PermitId};
use crate::decision::Source;
use crate::key::Key;
use crate::memory::MemoryStore;
use crate::store::{
    Demand, DemandBuf, Intent, OutcomeSources, SpendReply, Store, StoreError, StoreFuture,
};

/// The counters of this process, and the store for all others.
#[derive(Clone, Debug)]
pub(super) struct SplitStore {
    pub(super) local: MemoryStore,
    pub(super) shared: Arc<dyn Store>,
}

type DemandVec<'d> = SmallVec<[Demand<'d>; 4]>;

impl SplitStore {
    fn store_for(&self, key: &Key<'_>) -> &dyn Store {
        if key.is_local() {
            &self.local
        } else {
            &*self.shared
        }
    }
}

impl Store for SplitStore {
    fn spend<'a>(
        &'a self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        let (local, shared) = split(demands);
        if shared.is_empty() {
            return self.local.spend(&local, intent, permit_id);
        }
        if local.is_empty() {
            return self.shared.spend(&shared, intent, permit_id);
        }

        let local_reply = self.local.spend_all(&local, intent, permit_id);

        // If a local limit denies, the shared store is only read, for its part of the decision.
        let intent = if is_denied(&local, &local_reply.outcomes) {
            Intent::Peek
        } else {
            intent
        };
        let call = self.shared.spend(&shared, intent, permit_id);

        let request = SplitRequest {
            is_local: demands.iter().map(|demand| demand.key.is_local()).collect(),
            local: local.iter().map(Demand::to_buf).collect(),
            shared_shadows: shared.iter().map(|demand| demand.shadow).collect(),
            local_outcomes: local_reply.outcomes,
            intent,
            permit_id,
        };
        match call {
            StoreFuture::Ready(result) => {
                StoreFuture::Ready(result.map(|result| request.join(&self.local, result)))
            }
            StoreFuture::Pending(call) => {
                StoreFuture::Pending(Box::pin(async { request.join(&self.local, call.await) }))
            }
        }
    }

    #[inline]
    fn try_spend(
        &self,
        demand: &Demand<'_>,
        intent: Intent,
        permit_id: PermitId,
    ) -> Option<(Outcome, Source)> {
        self.store_for(&demand.key)
            .try_spend(demand, intent, permit_id)
    }

    #[inline]
    fn try_is_allowed(&self, demand: &Demand<'_>) -> Option<bool> {
        self.store_for(&demand.key).try_is_allowed(demand)
    }

    fn refund<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        let (local, shared) = split(demands);
        if !local.is_empty() {
            // The memory store has done the refund when the call returns.
            drop(self.local.refund(&local));
        }

        if shared.is_empty() {
            StoreFuture::ready(Ok(()))
        } else {
            self.shared.refund(&shared)
        }
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        self.store_for(key).reset(key)
    }

    fn release<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        self.store_for(&demand.key).release(demand, permit_id)
    }

    fn renew<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        self.store_for(&demand.key).renew(demand, permit_id)
    }

    fn return_leases(&self) -> StoreFuture<'_, ()> {
        self.shared.return_leases()
    }
}

/// A request over both stores, whose local part has been decided.
struct SplitRequest {
    /// For each demand of the request, whether it is local.
    is_local: SmallVec<[bool; 4]>,
    local: SmallVec<[DemandBuf; 4]>,
    /// For each demand on the shared store, whether it is a shadow.
    shared_shadows: SmallVec<[bool; 4]>,
    local_outcomes: SmallVec<[Outcome; 1]>,
    /// The intent of the shared part.
    intent: Intent,
    permit_id: PermitId,
}

impl SplitRequest {
    /// Joins both parts once the shared store has replied. Undoes the local part if the shared
    /// store has denied the request or failed.
    fn join(
        self,
        local_store: &MemoryStore,
        result: Result<SpendReply, StoreError>,
    ) -> Result<SpendReply, StoreError> {
        let is_denied = |reply: &SpendReply| {
            let mut pairs = self.shared_shadows.iter().zip(&reply.outcomes);
            pairs.any(|(shadow, outcome)| !shadow && !outcome.verdict.is_allowed())
        };
        let is_allowed = result.as_ref().is_ok_and(|reply| !is_denied(reply));

        let local_outcomes = if is_allowed || self.intent == Intent::Peek {
            self.local_outcomes
        } else {
            let local: DemandVec<'_> = self.local.iter().map(DemandBuf::as_demand).collect();
            undo_spend(local_store, &local, self.permit_id);
            local_store
                .spend_all(&local, Intent::Peek, self.permit_id)
                .outcomes
        };

        // Merge the outcomes in the order of the request.
        let reply = result?;
        let mut local = local_outcomes.into_iter();
        let mut shared = reply.outcomes.into_iter().enumerate();
        let mut sources = OutcomeSources::default();
        let rows = self.is_local.iter().enumerate();
        let outcomes = rows.filter_map(|(index, is_local)| {
            if *is_local {
                return local.next();
            }
            let (shared_index, outcome) = shared.next()?;
            sources.set(index, reply.sources.get(shared_index));
            Some(outcome)
        });

        Ok(SpendReply {
            outcomes: outcomes.collect(),
            sources,
            at: reply.at,
        })
    }
}

/// Undoes a spend in a memory store: refunds units and releases permits.
pub(super) fn undo_spend(store: &MemoryStore, demands: &[Demand<'_>], permit_id: PermitId) {
    drop(store.refund(demands));
    for demand in demands.iter().filter(|demand| demand.needs_permit()) {
        store.release_permit(demand, permit_id);
    }
}

/// Splits demands into those on local limits and those on the shared store.
pub(super) fn split<'d>(demands: &[Demand<'d>]) -> (DemandVec<'d>, DemandVec<'d>) {
    demands
        .iter()
        .copied()
        .partition(|demand| demand.key.is_local())
}

/// True when a demand that is not a shadow is denied.
pub(super) fn is_denied(demands: &[Demand<'_>], outcomes: &[Outcome]) -> bool {
    let mut pairs = demands.iter().zip(outcomes);
    pairs.any(|(demand, outcome)| !demand.shadow && !outcome.verdict.is_allowed())
}
