//! What remains to be done after a request was admitted: refunds, actual costs, and the permit.
//!
//! A request with an estimate reserves all its units under one id. Each limit is then settled once,
//! as soon as its cost is known: when the response arrives, or when its body ends.

use std::sync::Arc;
use std::task::Context;

use http::Request;
use smallvec::SmallVec;
use tollgate::{Decision, PermitId};

use crate::actual_cost::{ActualCost, CostCell};
use crate::background;
use crate::limit::{LayerLimit, OwnedDemand, SettlementRule};
use crate::permit_guard::PermitGuard;
use crate::policy::{LayerDemands, LayerPolicy};
use crate::response::{self, ResponseHead};
use crate::settle_call::{ActualCosts, SettleCall};

/// What remains to be done when the response arrives and when its body ends. Dropping it releases
/// the permit and settles the limits whose cost is still open: with the cost reported last, or else
/// with the estimate, because the work may have been done.
pub(crate) struct PendingSettlement {
    policy: Arc<LayerPolicy>,
    /// The id under which the units are reserved; `None` if they are spent.
    reservation: Option<PermitId>,
    charges: SmallVec<[OpenCharge; 1]>,
    permit: Option<PermitGuard>,
}

/// What was charged to one limit, until its cost is final.
struct OpenCharge {
    demand: OwnedDemand,
    /// Where the application reports the actual cost, if it does.
    cell: Option<Arc<CostCell>>,
    /// Whether the store does not know of the charge, because a failure policy has decided.
    is_fallback: bool,
}

impl PendingSettlement {
    pub(crate) fn new<B>(
        policy: &Arc<LayerPolicy>,
        request: &mut Request<B>,
        demands: impl Iterator<Item = OwnedDemand>,
        decision: &Decision,
        permit: Option<PermitGuard>,
    ) -> Self {
        let demands: SmallVec<[OwnedDemand; 1]> = demands.collect();
        let limit_of = |demand: &OwnedDemand| &policy.limits[demand.limit_index];
        let is_reserved = demands.iter().any(|demand| limit_of(demand).is_estimated());
        let reservation = decision.permit_id().filter(|_| is_reserved);

        let mut charges = SmallVec::new();
        for (demand, outcome) in demands.into_iter().zip(decision.limits()) {
            let limit = limit_of(&demand);
            let is_fallback = outcome.fallback().is_some();
            // A shadow limit that denied was not charged.
            if outcome.retry().is_some() || !may_change(limit, is_reserved, is_fallback) {
                continue;
            }

            let is_reported = matches!(limit.settle, SettlementRule::ByActualCost);
            let cell = is_reported
                .then(|| ActualCost::add_cell(request.extensions_mut(), limit.rule.name()));
            charges.push(OpenCharge {
                demand,
                cell,
                is_fallback,
            });
        }

        Self {
            policy: policy.clone(),
            reservation,
            charges,
            permit,
        }
    }

    /// Whether anything remains to be done at the end of the body.
    pub(crate) fn is_pending(&self) -> bool {
        self.permit.is_some() || !self.charges.is_empty()
    }

    #[inline(never)]
    pub(crate) fn renew_permit(&mut self, context: &mut Context<'_>) {
        if let Some(permit) = &mut self.permit {
            permit.poll_renewal(context);
        }
    }

    /// Refunds or settles what depends on the response, now that it is known.
    pub(crate) fn settle(&mut self, response: &ResponseHead<'_>) {
        let mut costs = ActualCosts::new();
        for charge in std::mem::take(&mut self.charges) {
            let limit = &self.policy.limits[charge.demand.limit_index];
            match charge.cost_by_response(limit, response) {
                Some(cost) => costs.extend(self.correction(charge, cost)),
                None => self.charges.push(charge),
            }
        }
        self.correct(costs);
    }

    /// The demand of a charge and its final cost; `None` if nothing remains to be done. A
    /// reservation is also ended if its cost was right.
    fn correction(&self, charge: OpenCharge, cost: u64) -> Option<(OwnedDemand, Option<u64>)> {
        let is_right = cost == charge.demand.cost && !charge.is_fallback;
        let needs_call = self.reservation.is_some() || !is_right;
        needs_call.then_some((charge.demand, (!is_right).then_some(cost)))
    }

    /// Corrects what was charged, in the background.
    fn correct(&self, costs: ActualCosts) {
        if costs.is_empty() {
            return;
        }

        if let Some(reservation) = self.reservation {
            SettleCall::start(&self.policy, reservation, costs);
            return;
        }

        // Without estimates, a charge is either final or refunded as a whole.
        let demands = costs.into_iter().map(|(demand, _)| demand);
        let demands: LayerDemands<'_> = demands.map(|demand| self.policy.restore(demand)).collect();
        let refund = self.policy.limiter.refund_request(&demands);
        background::poll_once(refund.into_future());
    }
}

impl Drop for PendingSettlement {
    fn drop(&mut self) {
        let charges = std::mem::take(&mut self.charges);
        let corrections = charges.into_iter().filter_map(|charge| {
            let cost = charge.reported().unwrap_or(charge.demand.cost);
            self.correction(charge, cost)
        });
        self.correct(corrections.collect());
    }
}

impl OpenCharge {
    /// The cost that the application has reported last.
    fn reported(&self) -> Option<u64> {
        self.cell.as_ref().and_then(|cell| cell.reported())
    }

    /// The final cost, now that the response is known; `None` if the end of the body decides.
    fn cost_by_response(&self, limit: &LayerLimit, response: &ResponseHead<'_>) -> Option<u64> {
        let is_free = limit.refund_when.as_ref();
        if is_free.is_some_and(|is_free| is_free(response)) {
            return Some(0);
        }

        match &limit.settle {
            SettlementRule::Never => Some(self.demand.cost),
            SettlementRule::ByResponse(cost) => Some(cost(response).unwrap_or(self.demand.cost)),
            SettlementRule::ByActualCost => {
                let is_failed = self.reported().is_none() && !response::succeeded(response);
                is_failed.then_some(0)
            }
        }
    }
}

/// Whether what was charged to a limit may change, or is a reservation that must be ended.
fn may_change(limit: &LayerLimit, is_reserved: bool, is_fallback: bool) -> bool {
    // If a failure policy decided, only an actual cost is charged later. Other charges, if any, are
    // in local counters, which are not corrected.
    if is_fallback || limit.has_permits() {
        return limit.is_estimated();
    }

    limit.depends_on_response() || is_reserved
}
