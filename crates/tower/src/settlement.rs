//! What remains to be done after a request was admitted: refunds, final costs, and the permit.

use std::slice;
use std::sync::Arc;
use std::task::Context;

use http::Request;
use smallvec::SmallVec;
use tollgate::Decision;
use tollgate::store::Intent;

use crate::actual_cost::{ActualCost, CostCell};
use crate::background;
use crate::limit::{OwnedDemand, SettlementRule};
use crate::permit_guard::PermitGuard;
use crate::policy::LayerPolicy;
use crate::response::ResponseHead;

/// What remains to be done when the response arrives and when its body ends. Dropping it releases
/// the permit and settles the limits for which an actual cost was reported.
pub(crate) struct Settlement {
    policy: Arc<LayerPolicy>,
    /// What was charged and may change when the response head, or the trailers of a gRPC call,
    /// arrive.
    by_response: SmallVec<[OwnedDemand; 1]>,
    /// What was charged and may change when the body ends.
    by_actual_cost: SmallVec<[(OwnedDemand, Arc<CostCell>); 1]>,
    permit: Option<PermitGuard>,
}

impl Settlement {
    pub(crate) fn new<B>(
        policy: &Arc<LayerPolicy>,
        request: &mut Request<B>,
        demands: impl Iterator<Item = OwnedDemand>,
        decision: &Decision,
        permit: Option<PermitGuard>,
    ) -> Self {
        let mut settlement = Self {
            policy: policy.clone(),
            by_response: SmallVec::new(),
            by_actual_cost: SmallVec::new(),
            permit,
        };

        for (demand, outcome) in demands.zip(decision.limits()) {
            // Skip limits that denied (shadow limits) and limits decided by a failure policy: their
            // charges, if any, are in local counters that are not settled.
            if outcome.retry().is_some() || outcome.fallback().is_some() {
                continue;
            }

            let limit = &policy.limits[demand.limit_index];
            if matches!(limit.settle, SettlementRule::ByActualCost) {
                let cell = ActualCost::add_cell(request.extensions_mut(), limit.rule.name());
                settlement.by_actual_cost.push((demand.clone(), cell));
            }
            if limit.refund_when.is_some() || matches!(limit.settle, SettlementRule::ByResponse(_))
            {
                settlement.by_response.push(demand);
            }
        }
        settlement
    }

    /// Whether anything remains to be done at the end of the body.
    pub(crate) fn is_pending(&self) -> bool {
        self.permit.is_some() || !self.by_actual_cost.is_empty() || !self.by_response.is_empty()
    }

    pub(crate) fn renew_permit(&mut self, context: &mut Context<'_>) {
        if let Some(permit) = &mut self.permit {
            permit.poll_renewal(context);
        }
    }

    /// Refunds or settles what depends on the response, now that it is known.
    pub(crate) fn settle(&mut self, response: &ResponseHead<'_>) {
        for demand in std::mem::take(&mut self.by_response) {
            let limit = &self.policy.limits[demand.limit_index];
            let is_free = limit
                .refund_when
                .as_ref()
                .is_some_and(|is_free| is_free(response));

            if is_free {
                // A refunded request stays free, even if the application reports a cost.
                self.by_actual_cost
                    .retain(|(other, _)| other.limit_index != demand.limit_index);
                adjust_charge(&self.policy, demand, 0);
            } else if let SettlementRule::ByResponse(cost) = &limit.settle
                && let Some(cost) = cost(response)
            {
                adjust_charge(&self.policy, demand, cost);
            }
        }
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        for (demand, cell) in std::mem::take(&mut self.by_actual_cost) {
            if let Some(cost) = cell.reported() {
                adjust_charge(&self.policy, demand, cost);
            }
        }
    }
}

/// Changes what a demand was charged to `cost`, by a refund or by a second charge.
fn adjust_charge(policy: &Arc<LayerPolicy>, demand: OwnedDemand, cost: u64) {
    let charged = demand.cost;
    let difference = OwnedDemand {
        cost: cost.abs_diff(charged),
        ..demand
    };

    if cost < charged {
        let demand = policy.restore(difference);
        let refund = policy.limiter.refund_request(slice::from_ref(&demand));
        background::poll_once(refund.into_future());
    } else if cost > charged {
        background::run(charge_excess(policy.clone(), difference));
    }
}

/// Charges what a request cost beyond the estimate: all of it, or what remains of the limit.
async fn charge_excess(
    policy: Arc<LayerPolicy>,
    demand: OwnedDemand,
) -> Result<(), tollgate::Error> {
    let excess = [policy.restore(demand)];
    let decision = policy.limiter.request(&excess, Intent::Spend).await?;

    if !decision.is_allowed() && decision.remaining() > 0 {
        let rest = excess.map(|demand| demand.with_cost(decision.remaining()));
        drop(policy.limiter.request(&rest, Intent::Spend).await?);
    }
    Ok(())
}
