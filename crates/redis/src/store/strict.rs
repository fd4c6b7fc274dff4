//! Operations on the counters of the servers, regardless of leases.

use std::slice;
use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate::store::{
    Ending, Intent, Part, PartList, SettleReply, Settlement, SpendReply, StoreFuture,
};
use tollgate::{Demand, PermitId, Quota, StoreError};

use super::router::{CallRouter, join};
use crate::error::CallError;
use crate::wire::{DemandTerms, Operation, StoreCall, hash_slot};

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
            Ok(call) => pending(async move {
                let reply = call.run().await;
                let reply = reply.and_then(|reply| reply.spend_reply(&terms, intent));
                reply.map_err(|error| error.for_demands(&terms))
            }),
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
                let terms: Vec<DemandTerms> = demands.iter().map(DemandTerms::new).collect();
                let encoder = &self.encoder;
                let call = encoder.call(Operation::Refund, demands, PermitId::NONE);
                (self.spawn(call), terms)
            })
            .collect();

        pending(async move {
            for (refund, terms) in refunds {
                refund.await.map_err(|error| error.for_demands(&terms))?;
            }
            Ok(())
        })
    }

    /// Ends a reservation. The first demand that is not on a concurrency limit decides how; in a
    /// cluster, those in other slots follow when its reply is known. Takes effect even if the future
    /// is dropped.
    pub(super) fn settle(
        self: &Arc<Self>,
        settlements: &[Settlement<'_>],
        ending: Ending,
    ) -> StoreFuture<'static, Vec<SettleReply>> {
        let mut replies = vec![SettleReply::for_permit(false, ending.end); settlements.len()];
        let mut permits = Vec::new();
        let mut slots: Vec<(u16, Vec<usize>)> = Vec::new();
        for (index, Settlement { demand, .. }) in settlements.iter().enumerate() {
            if demand.is_permit() {
                let release = self
                    .encoder
                    .call(Operation::Release, &[*demand], ending.reservation);
                permits.push((index, self.spawn(release)));
                continue;
            }
            let slot = self.encoder.slot(&demand.key);
            match slots.iter_mut().find(|(other, _)| *other == slot) {
                Some((_, indexes)) => indexes.push(index),
                None => slots.push((slot, vec![index])),
            }
        }

        let mut calls = slots.into_iter().map(|(_, indexes)| {
            let in_slot: Vec<Settlement<'_>> = indexes.iter().map(|at| settlements[*at]).collect();
            (indexes, self.encoder.settle(&in_slot, ending))
        });
        let first = calls
            .next()
            .map(|(indexes, call)| (indexes, self.spawn(call)));
        let others: Vec<(Vec<usize>, StoreCall)> = calls.collect();

        let router = self.clone();
        let task = async move {
            for (index, release) in permits {
                let released = release.await.map_err(|error| error.of_demands(&[index]))?;
                let was_held = released.succeeded;
                replies[index] = SettleReply::for_permit(was_held, ending.end);
            }
            if let Some((indexes, call)) = first {
                let reply = call.await.map_err(|error| error.of_demands(&indexes))?;
                enter(&mut replies, &indexes, &reply.settled);
                let decided = (replies[indexes[0]], ending);
                router.settle_others(others, decided, &mut replies).await?;
            }
            Ok(replies)
        };
        let task = self.connector.runtime.spawn(task);
        let demands = settlements.iter().map(|settlement| &settlement.demand);
        let terms: Vec<DemandTerms> = demands.map(DemandTerms::new).collect();
        pending(async move { join(task).await.map_err(|error| error.for_demands(&terms)) })
    }

    /// Settles the demands in other slots as the first one has decided.
    async fn settle_others(
        self: &Arc<Self>,
        others: Vec<(Vec<usize>, StoreCall)>,
        (first, ending): (SettleReply, Ending),
        replies: &mut [SettleReply],
    ) -> Result<(), CallError> {
        let Some(following) = first.ending_of_others(ending) else {
            // The reservation has ended in the other way: nothing changes.
            for index in others.iter().flat_map(|(indexes, _)| indexes) {
                replies[*index] = SettleReply {
                    charged: 0,
                    ..first
                };
            }
            return Ok(());
        };

        let calls: Vec<_> = others
            .into_iter()
            .map(|(indexes, mut call)| {
                if following.was_open {
                    call.set_was_open();
                }
                (indexes, self.spawn(call))
            })
            .collect();
        for (indexes, call) in calls {
            let reply = call.await.map_err(|error| error.of_demands(&indexes))?;
            enter(replies, &indexes, &reply.settled);
        }
        Ok(())
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
        let terms: Vec<DemandTerms> = demands.iter().map(DemandTerms::new).collect();
        let reply = self.router.submit(call, self.deadline)?.run().await;
        let reply = reply.map_err(|error| error.for_demands(&terms))?;
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
                Intent::Reserve { .. } => encoder.undo(&demand, permit_id),
                _ => encoder.call(Operation::Refund, &[demand], permit_id),
            };
            drop(self.router.spawn(call));
        }
        self.uncharged.take().unwrap_or_else(|| reply.clone())
    }
}

/// Enters the replies to the demands with these indexes.
fn enter(replies: &mut [SettleReply], indexes: &[usize], settled: &[SettleReply]) {
    for (index, reply) in indexes.iter().zip(settled) {
        replies[*index] = *reply;
    }
}

pub(super) fn pending<'a, T>(
    future: impl Future<Output = Result<T, StoreError>> + Send + 'a,
) -> StoreFuture<'a, T> {
    StoreFuture::Pending(Box::pin(future))
}
