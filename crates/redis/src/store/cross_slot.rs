//! Requests whose demands are in several slots of a cluster.
//!
//! No script can spend them together. They are spent one slot after the other, lowest limit first.
//! When a later slot denies, the charges in the earlier slots are refunded. Until the refund, other
//! requests may be denied that would have been allowed, but no request is allowed that should have
//! been denied.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::store::{Intent, SpendReply};
use tollgate::{Demand, DemandBuf, Micros, Outcome, PermitId, Quota, StoreError};

use super::router::CallRouter;
use crate::error::CallError;
use crate::wire::{DemandTerms, Operation, ScriptReply};

/// The demands in one slot.
struct SlotGroup {
    /// The indexes of the demands in the request.
    indexes: SmallVec<[usize; 4]>,
    demands: SmallVec<[DemandBuf; 4]>,
    terms: SmallVec<[DemandTerms; 4]>,
}

/// A slot group with the reply to its call.
struct GroupReply {
    group: SlotGroup,
    reply: ScriptReply,
    /// True when the demands were spent and allowed.
    is_charged: bool,
}

/// Spends or peeks the demands of all slots.
pub(super) fn spend(
    router: Arc<CallRouter>,
    demands: &[Demand<'_>],
    slots: &[u16],
    intent: Intent,
    permit_id: PermitId,
) -> impl Future<Output = Result<SpendReply, StoreError>> + Send + use<> {
    let (count, groups) = (demands.len(), group_by_slot(demands, slots));
    async move {
        let mut spend = CrossSlotSpend {
            router,
            permit_id,
            replies: Vec::with_capacity(groups.len()),
        };
        let is_allowed = spend.call_groups(groups, intent).await?;

        if intent == Intent::Spend && is_allowed {
            let outcomes = spend.outcomes(count, Intent::Spend)?;
            spend.commit();
            return Ok(outcomes);
        }
        // The charges are refunded when `spend` is dropped, so the outcomes are those of a peek.
        Ok(spend.outcomes(count, Intent::Peek)?)
    }
}

/// A spend in progress. Unless it is committed, dropping it refunds all charges, also when the
/// caller stops waiting.
struct CrossSlotSpend {
    router: Arc<CallRouter>,
    permit_id: PermitId,
    replies: Vec<GroupReply>,
}

impl CrossSlotSpend {
    /// Spends group after group. After the first denial, the other groups are only peeked at.
    /// Returns true when all groups allow.
    async fn call_groups(
        &mut self,
        groups: Vec<SlotGroup>,
        intent: Intent,
    ) -> Result<bool, CallError> {
        let deadline = self.router.deadline();
        let mut is_allowed = true;

        for group in groups {
            let intent = if is_allowed { intent } else { Intent::Peek };
            let call = {
                let demands: SmallVec<[Demand<'_>; 4]> =
                    group.demands.iter().map(DemandBuf::as_demand).collect();
                let encoder = &self.router.encoder;
                encoder.call(intent.into(), &demands, self.permit_id)
            };

            let reply = self.router.submit(call, deadline)?.run().await?;
            is_allowed &= reply.succeeded;
            let is_charged = intent == Intent::Spend && reply.succeeded;
            self.replies.push(GroupReply {
                group,
                reply,
                is_charged,
            });
        }
        Ok(is_allowed)
    }

    /// The outcomes in the order of the request.
    fn outcomes(&self, count: usize, intent: Intent) -> Result<SpendReply, CallError> {
        let mut indexed: Vec<(usize, Outcome)> = Vec::with_capacity(count);
        let mut at = Micros::ZERO;
        for GroupReply { group, reply, .. } in &self.replies {
            let spent = reply.spend_reply(&group.terms, intent)?;
            at = at.max(spent.at);
            indexed.extend(group.indexes.iter().copied().zip(spent.outcomes));
        }

        indexed.sort_by_key(|(index, _)| *index);
        let outcomes = indexed.into_iter().map(|(_, outcome)| outcome).collect();
        Ok(SpendReply::by_store(outcomes, at))
    }

    /// Keeps the charges.
    fn commit(mut self) {
        self.replies.clear();
    }

    /// Refunds the demands of a group that were charged: those that were allowed and have a cost.
    fn refund_group(&self, GroupReply { group, reply, .. }: &GroupReply) {
        let Ok(spent) = reply.spend_reply(&group.terms, Intent::Spend) else {
            return;
        };

        let demands = group.demands.iter().zip(&spent.outcomes);
        let charged =
            demands.filter(|(demand, outcome)| demand.cost > 0 && outcome.verdict.is_allowed());
        for (demand, _) in charged {
            let operation = if matches!(demand.quota, Quota::Concurrency(_)) {
                Operation::Release
            } else {
                Operation::Refund
            };
            let encoder = &self.router.encoder;
            let call = encoder.call(operation, &[demand.as_demand()], self.permit_id);
            drop(self.router.spawn(call));
        }
    }
}

impl Drop for CrossSlotSpend {
    fn drop(&mut self) {
        self.replies
            .iter()
            .filter(|reply| reply.is_charged)
            .for_each(|reply| self.refund_group(reply));
    }
}

/// Groups the demands by slot, lowest limit first. Shadow demands, which never deny, come last.
fn group_by_slot(demands: &[Demand<'_>], slots: &[u16]) -> Vec<SlotGroup> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|index| (demands[*index].shadow, demands[*index].quota.limit()));

    let mut groups: Vec<(u16, SlotGroup)> = Vec::new();
    for index in order {
        let slot = slots[index];
        let position = groups
            .iter()
            .position(|(other, _)| *other == slot)
            .unwrap_or_else(|| {
                let group = SlotGroup {
                    indexes: SmallVec::new(),
                    demands: SmallVec::new(),
                    terms: SmallVec::new(),
                };
                groups.push((slot, group));
                groups.len() - 1
            });

        let group = &mut groups[position].1;
        group.indexes.push(index);
        group.demands.push(demands[index].to_buf());
        group.terms.push(DemandTerms::new(&demands[index]));
    }

    groups.into_iter().map(|(_, group)| group).collect()
}
