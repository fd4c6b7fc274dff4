//! Operations on the counters of the servers, regardless of leases.

use std::slice;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::store::{Intent, SpendReply, StoreFuture};
use tollgate::{Demand, PermitId, Quota, StoreError};

use super::cross_slot;
use super::router::CallRouter;
use crate::wire::{DemandTerms, Operation, hash_slot};

impl CallRouter {
    /// Spends or peeks.
    pub(super) fn spend(
        self: &Arc<Self>,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> StoreFuture<'static, SpendReply> {
        let call = self.encoder.call(intent.into(), demands, permit_id);

        if self.connector.is_cluster && demands.len() > 1 {
            let slots: SmallVec<[u16; 4]> = call.keys.iter().map(|key| hash_slot(key)).collect();
            if slots.iter().any(|slot| *slot != call.slot) {
                let router = self.clone();
                return pending(cross_slot::spend(
                    router, demands, &slots, intent, permit_id,
                ));
            }
        }

        let terms: SmallVec<[DemandTerms; 1]> = demands.iter().map(DemandTerms::new).collect();
        match self.submit(call, self.deadline()) {
            Err(error) => StoreFuture::ready(Err(error.into())),
            Ok(call) => pending(async move { Ok(call.run().await?.spend_reply(&terms, intent)?) }),
        }
    }

    /// Refunds. Takes effect even if the future is dropped.
    pub(super) fn refund(self: &Arc<Self>, demands: &[Demand<'_>]) -> StoreFuture<'static, ()> {
        // In a cluster the demands may be in different slots.
        let together = if self.connector.is_cluster {
            1
        } else {
            demands.len().max(1)
        };
        let refunds: Vec<_> = demands
            .chunks(together)
            .map(|demands| {
                self.encoder
                    .call(Operation::Refund, demands, PermitId::NONE)
            })
            .map(|call| self.spawn(call))
            .collect();

        pending(async move {
            for refund in refunds {
                refund.await?;
            }
            Ok(())
        })
    }

    /// Releases or renews a permit. False if the limit has no permits, or the permit has expired.
    pub(super) fn change_permit(
        self: &Arc<Self>,
        operation: Operation,
        demand: &Demand<'_>,
        permit_id: PermitId,
    ) -> StoreFuture<'static, bool> {
        if !matches!(demand.quota, Quota::Concurrency(_)) {
            return StoreFuture::ready(Ok(false));
        }

        let demands = slice::from_ref(demand);
        let reply = self.spawn(self.encoder.call(operation, demands, permit_id));
        pending(async move { Ok(reply.await?.succeeded) })
    }
}

pub(super) fn pending<'a, T>(
    future: impl Future<Output = Result<T, StoreError>> + Send + 'a,
) -> StoreFuture<'a, T> {
    StoreFuture::Pending(Box::pin(future))
}
