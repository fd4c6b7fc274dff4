//! What the layer remembers of an admitted request: for its response headers, and for refunds,
//! permits and settlement.

use std::sync::Arc;
use std::task::Context;

use http::{Request, Response};
use smallvec::SmallVec;
use tollgate::{Decision, Micros, Permit, Quota};
use tollgate_http::Fields;

use crate::actual_cost::{ActualCost, CostCell};
use crate::background;
use crate::permit_guard::PermitGuard;
use crate::policy::{LayerDemand, LayerDemands, LayerPolicy, SettlementRule};
use crate::response::ResponseHead;
use crate::response_body::ResponseBody;

/// An admitted request, until its response arrives.
pub(crate) struct AdmittedRequest {
    policy: Arc<LayerPolicy>,
    decision: Decision,
    /// Whether to add rate limit fields to the response.
    adds_fields: bool,
    /// `None` if the response does not change what was charged and no permit is held.
    settlement: Option<Box<Settlement>>,
}

/// What remains to be done when the response arrives and when its body ends. Dropping it releases
/// the permit and settles the limits for which an actual cost was reported.
pub(crate) struct Settlement {
    policy: Arc<LayerPolicy>,
    /// What was charged and may change when the response head, or the trailers of a gRPC call,
    /// arrive.
    by_response: SmallVec<[LayerDemand; 1]>,
    /// What was charged and may change when the body ends.
    by_actual_cost: SmallVec<[(LayerDemand, Arc<CostCell>); 1]>,
    permit: Option<PermitGuard>,
}

impl AdmittedRequest {
    pub(crate) fn new(
        policy: &Arc<LayerPolicy>,
        decision: Decision,
        settlement: Option<Box<Settlement>>,
    ) -> Self {
        Self {
            policy: policy.clone(),
            decision,
            adds_fields: true,
            settlement,
        }
    }

    /// Leaves the response headers unchanged. On outgoing calls they describe the limits of the
    /// remote service.
    pub(crate) fn without_fields(self) -> Self {
        Self {
            adds_fields: false,
            ..self
        }
    }

    /// Renews the permit, if one is held, while the application handles the request.
    pub(crate) fn renew_permit(&mut self, context: &mut Context<'_>) {
        if let Some(settlement) = &mut self.settlement {
            settlement.renew_permit(context);
        }
    }

    /// Turns the application's response into the one that the client gets.
    pub(crate) fn into_response<B>(self, mut response: Response<B>) -> Response<ResponseBody<B>> {
        let Self {
            policy,
            decision,
            adds_fields,
            mut settlement,
        } = self;

        if let Some(settlement) = &mut settlement {
            let head = ResponseHead::new(&response);
            if !head.is_unfinished_call() {
                settlement.settle(&head);
            }
        }

        if adds_fields {
            let now = policy.limiter.clock().now();
            Fields::new(&decision, policy.fields, now).add_to(response.headers_mut());
        }

        let settlement = settlement.filter(|settlement| settlement.is_pending());
        let status = response.status();
        response.map(|body| ResponseBody::from_application(body, status, settlement))
    }

    /// Settles a request whose service failed without a response.
    pub(crate) fn fail(mut self) {
        if let Some(settlement) = &mut self.settlement {
            settlement.settle(&ResponseHead::NONE);
        }
    }
}

impl Settlement {
    pub(crate) fn new<B>(
        policy: &Arc<LayerPolicy>,
        request: &mut Request<B>,
        demands: LayerDemands,
        decision: &Decision,
        permit: Option<Permit>,
    ) -> Self {
        let permit = permit.map(|permit| {
            let permit_timeout = shortest_permit_timeout(policy, &demands);
            PermitGuard::new(permit, policy.limiter.clock(), permit_timeout)
        });
        let mut settlement = Self {
            policy: policy.clone(),
            by_response: SmallVec::new(),
            by_actual_cost: SmallVec::new(),
            permit,
        };

        for (demand, outcome) in demands.into_iter().zip(decision.limits()) {
            // Skip limits that denied (shadow limits) and limits decided by a failure policy: their
            // charges, if any, are in local counters that are not settled.
            if outcome.retry().is_some() || outcome.fallback().is_some() {
                continue;
            }

            let limit = &policy.limits[demand.limit_index];
            if matches!(limit.settle, SettlementRule::ByActualCost) {
                let cell = ActualCost::add_cell(request.extensions_mut(), &limit.name);
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
    fn is_pending(&self) -> bool {
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

            let final_cost = match &limit.settle {
                _ if is_free => Some(0),
                SettlementRule::ByResponse(cost) => cost(response),
                SettlementRule::Never | SettlementRule::ByActualCost => None,
            };

            if is_free {
                // A refunded request stays free, even if the application reports a cost.
                self.by_actual_cost
                    .retain(|(other, _)| other.limit_index != demand.limit_index);
            }
            if let Some(cost) = final_cost {
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

/// The shortest permit timeout among the concurrency limits of a request.
fn shortest_permit_timeout(policy: &LayerPolicy, demands: &LayerDemands) -> Micros {
    let quota = |demand: &LayerDemand| {
        let limit = &policy.limits[demand.limit_index];
        let rule = policy.limiter.rule(&limit.name).ok();
        demand
            .quota
            .as_deref()
            .copied()
            .or_else(|| rule.map(|rule| *rule.quota()))
    };

    let timeouts = demands.iter().filter_map(|demand| match quota(demand) {
        Some(Quota::Concurrency(concurrency)) => Some(concurrency.permit_timeout()),
        _ => None,
    });
    timeouts.min().unwrap_or(Micros::MAX)
}

/// Changes what a demand was charged to `cost`, by a refund or by a second charge.
fn adjust_charge(policy: &Arc<LayerPolicy>, demand: LayerDemand, cost: u64) {
    let limit = &policy.limits[demand.limit_index].name;

    if cost < demand.cost {
        let mut refund = policy
            .limiter
            .refund(limit, &demand.key)
            .cost(demand.cost - cost);
        if let Some(quota) = &demand.quota {
            refund = refund.quota(**quota);
        }
        background::poll_once(refund.into_future());
    } else if cost > demand.cost {
        let excess = LayerDemand {
            cost: cost - demand.cost,
            ..demand
        };
        background::run(charge_excess(policy.clone(), excess));
    }
}

/// Charges what a request cost beyond the estimate: all of it, or what remains of the limit.
async fn charge_excess(
    policy: Arc<LayerPolicy>,
    demand: LayerDemand,
) -> Result<(), tollgate::Error> {
    let limit = &policy.limits[demand.limit_index].name;
    let check = |cost| {
        let check = policy.limiter.check(limit, &demand.key).cost(cost);
        match &demand.quota {
            Some(quota) => check.quota(**quota),
            None => check,
        }
    };

    let decision = check(demand.cost).await?;
    if !decision.is_allowed() && decision.remaining() > 0 {
        drop(check(decision.remaining()).await?);
    }
    Ok(())
}
