//! Operations on the counters of the servers, regardless of leases.

use std::slice;
use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate::store::{
    Intent, Part, PartList, Settlement, SettlementKind, SpendReply, StoreFuture,
};
use tollgate::{Demand, PermitId, Quota, StoreError};

use super::router::CallRouter;
use crate::wire::{DemandTerms, Operation, hash_slot};

impl CallRouter {
    /// Spends or peeks, by the deadline.
    pub(super) fn spend(
        self: &Arc<Self>,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
        deadline: Instant,
    ) -> StoreFuture<'static, SpendReply> {
        let call = self.encoder.request(intent, demands, permit_id);

        if self.connector.is_cluster && demands.len() > 1 {
            let counters = call.keys.iter().take(demands.len());
            let slots: SmallVec<[u16; 4]> = counters.map(|key| hash_slot(key)).collect();
            if slots.iter().any(|slot| *slot != call.slot) {
                return spend_in_slots(self, demands, &slots, intent, permit_id, deadline);
            }
        }

        let terms: SmallVec<[DemandTerms; 1]> = demands.iter().map(DemandTerms::new).collect();
        match self.submit(call, deadline) {
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

    /// Settles the demands of a reservation, each by itself. Takes effect even if the future is
    /// dropped.
    pub(super) fn settle(
        self: &Arc<Self>,
        settlements: &[Settlement<'_>],
        reservation: PermitId,
    ) -> StoreFuture<'static, Vec<SettlementKind>> {
        let encode = |settlement: &Settlement<'_>| {
            let demand = &settlement.demand;
            if matches!(demand.quota(), Quota::Concurrency(_)) {
                let demands = slice::from_ref(demand);
                self.encoder.call(Operation::Release, demands, reservation)
            } else {
                self.encoder.settle(settlement, reservation)
            }
        };
        let calls: Vec<_> = settlements
            .iter()
            .map(|settlement| self.spawn(encode(settlement)))
            .collect();

        pending(async move {
            let mut kinds = Vec::with_capacity(calls.len());
            for call in calls {
                let reply = call.await?;
                kinds.push(match reply.succeeded {
                    true => SettlementKind::Reserved,
                    false if reply.is_unchanged => SettlementKind::Repeated,
                    false => SettlementKind::Unreserved,
                });
            }
            Ok(kinds)
        })
    }

    /// Releases or renews a permit. False if the limit has no permits, or the permit has expired.
    pub(super) fn change_permit(
        self: &Arc<Self>,
        operation: Operation,
        demand: &Demand<'_>,
        permit_id: PermitId,
    ) -> StoreFuture<'static, bool> {
        if !matches!(demand.quota(), Quota::Concurrency(_)) {
            return StoreFuture::ready(Ok(false));
        }

        let demands = slice::from_ref(demand);
        let reply = self.spawn(self.encoder.call(operation, demands, permit_id));
        pending(async move { Ok(reply.await?.succeeded) })
    }
}

/// Spends or peeks at demands in several slots of a cluster, which no script can spend together.
/// Each slot is a part of the request.
fn spend_in_slots(
    router: &Arc<CallRouter>,
    demands: &[Demand<'_>],
    slots: &[u16],
    intent: Intent,
    permit_id: PermitId,
    deadline: Instant,
) -> StoreFuture<'static, SpendReply> {
    // Lowest limit first. Shadow demands, which never deny, come last.
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|index| {
        let demand = &demands[*index];
        (demand.limit.is_shadow(), demand.quota().limit())
    });

    let mut parts = PartList::new(permit_id);
    while let Some(first) = order.first() {
        let slot = slots[*first];
        let (in_slot, others): (Vec<_>, Vec<_>) =
            order.into_iter().partition(|index| slots[*index] == slot);
        order = others;

        let part = SlotPart {
            router: router.clone(),
            deadline,
            uncharged: None,
        };
        parts.push(
            part,
            in_slot.into_iter().map(|index| (index, &demands[index])),
        );
    }
    parts.spend(intent)
}

/// The demands in one slot.
struct SlotPart {
    router: Arc<CallRouter>,
    deadline: Instant,
    /// The reply as it would be for a peek.
    uncharged: Option<SpendReply>,
}

impl Part for SlotPart {
    async fn spend(
        &mut self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> Result<SpendReply, StoreError> {
        let call = self.router.encoder.request(intent, demands, permit_id);
        let reply = self.router.submit(call, self.deadline)?.run().await?;

        let terms: Vec<DemandTerms> = demands.iter().map(DemandTerms::new).collect();
        self.uncharged = Some(reply.spend_reply(&terms, Intent::Peek)?);
        Ok(reply.spend_reply(&terms, intent)?)
    }

    fn undo(
        &mut self,
        demands: &[Demand<'_>],
        reply: &SpendReply,
        intent: Intent,
        permit_id: PermitId,
    ) -> SpendReply {
        for demand in reply.charged(demands, intent) {
            let encoder = &self.router.encoder;
            let call = match intent {
                _ if demand.needs_permit() => {
                    encoder.call(Operation::Release, &[demand], permit_id)
                }
                Intent::Reserve { .. } => {
                    encoder.settle(&Settlement { demand, actual: 0 }, permit_id)
                }
                _ => encoder.call(Operation::Refund, &[demand], permit_id),
            };
            drop(self.router.spawn(call));
        }
        self.uncharged.take().unwrap_or_else(|| reply.clone())
    }
}

pub(super) fn pending<'a, T>(
    future: impl Future<Output = Result<T, StoreError>> + Send + 'a,
) -> StoreFuture<'a, T> {
    StoreFuture::Pending(Box::pin(future))
}
