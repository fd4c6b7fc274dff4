//! A request that has passed: what is remembered of it until its response is there, and until the
//! response is sent.

use std::sync::Arc;
use std::task::Context;

use http::{Request, Response};
use smallvec::SmallVec;
use tollgate::{Decision, Micros, Permit, Quota};

use crate::answer::fields;
use crate::bill::{Bill, Tab};
use crate::body::ResponseBody;
use crate::held::Held;
use crate::plan::{Charge, Charges, Plan, Settle};
use crate::reply::Reply;
use crate::start;

/// What is known of a request that was let through.
pub(crate) struct Visit {
    plan: Arc<Plan>,
    decision: Decision,
    /// Whether the response tells where the caller stands.
    tells: bool,
    /// Only where the response or its end changes something.
    later: Option<Box<Later>>,
}

/// What is to be done once the response is there, or has been sent. Dropping it does what is left
/// to do.
pub(crate) struct Later {
    plan: Arc<Plan>,
    /// What was charged and may still change.
    owed: SmallVec<[Charge; 1]>,
    tabs: SmallVec<[(Charge, Arc<Tab>); 1]>,
    held: Option<Held>,
}

impl Visit {
    pub(crate) fn new(plan: &Arc<Plan>, decision: Decision, later: Option<Box<Later>>) -> Self {
        Self {
            plan: plan.clone(),
            decision,
            tells: true,
            later,
        }
    }

    /// Leaves the response's fields alone: they are those of somebody else's limits.
    pub(crate) fn silent(self) -> Self {
        Self {
            tells: false,
            ..self
        }
    }

    /// Keeps what is held while the application works.
    pub(crate) fn keep(&mut self, context: &mut Context<'_>) {
        if let Some(later) = &mut self.later {
            later.keep(context);
        }
    }

    /// The response as the client gets it.
    pub(crate) fn leave<B>(self, mut response: Response<B>) -> Response<ResponseBody<B>> {
        let Self {
            plan,
            decision,
            tells,
            mut later,
        } = self;
        if let Some(later) = &mut later {
            let reply = Reply::of(&response);
            if !reply.is_unfinished_call() {
                later.hear(&reply);
            }
        }
        if tells {
            fields::add(
                response.headers_mut(),
                &decision,
                plan.fields,
                plan.limiter.clock().now(),
            );
        }
        let later = later.filter(|later| later.lasts());
        let status = response.status();
        response.map(|body| ResponseBody::passed(body, status, later))
    }

    /// No response comes.
    pub(crate) fn fail(mut self) {
        if let Some(later) = &mut self.later {
            later.hear(&Reply::NONE);
        }
    }
}

impl Later {
    pub(crate) fn new<B>(
        plan: &Arc<Plan>,
        request: &mut Request<B>,
        charges: Charges,
        decision: &Decision,
        permit: Option<Permit>,
    ) -> Self {
        let held =
            permit.map(|permit| Held::new(permit, plan.limiter.clock(), lease_of(plan, &charges)));
        let mut later = Self {
            plan: plan.clone(),
            owed: SmallVec::new(),
            tabs: SmallVec::new(),
            held,
        };
        for (charge, status) in charges.into_iter().zip(decision.limits()) {
            // What a shadow limit would have refused was not charged, and what a policy let through
            // was not either.
            if status.retry().is_some() || status.fallback().is_some() {
                continue;
            }
            let recipe = &plan.recipes[charge.recipe];
            if matches!(recipe.settle, Settle::ByBill) {
                let tab = Bill::open(request.extensions_mut(), &recipe.limit);
                later.tabs.push((charge.clone(), tab));
            }
            if recipe.refund.is_some() || matches!(recipe.settle, Settle::Of(_)) {
                later.owed.push(charge);
            }
        }
        later
    }

    /// True when there is something to do at the end of the body.
    fn lasts(&self) -> bool {
        self.held.is_some() || !self.tabs.is_empty() || !self.owed.is_empty()
    }

    pub(crate) fn keep(&mut self, context: &mut Context<'_>) {
        if let Some(held) = &mut self.held {
            held.keep(context);
        }
    }

    /// The answer to the request is known: gives back or settles what depends on it.
    pub(crate) fn hear(&mut self, reply: &Reply<'_>) {
        for charge in std::mem::take(&mut self.owed) {
            let recipe = &self.plan.recipes[charge.recipe];
            let is_free = recipe.refund.as_ref().is_some_and(|refund| refund(reply));
            let settled = match &recipe.settle {
                _ if is_free => Some(0),
                Settle::Of(settle) => settle(reply),
                Settle::Never | Settle::ByBill => None,
            };
            if is_free {
                // What costs nothing is not settled again.
                self.tabs.retain(|(other, _)| other.recipe != charge.recipe);
            }
            if let Some(cost) = settled {
                settle(&self.plan, charge, cost);
            }
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        for (charge, tab) in std::mem::take(&mut self.tabs) {
            if let Some(cost) = tab.told() {
                settle(&self.plan, charge, cost);
            }
        }
    }
}

/// The shortest lease among those that a request holds.
fn lease_of(plan: &Plan, charges: &Charges) -> Micros {
    let quota = |charge: &Charge| {
        let rule = plan.limiter.rule(&plan.recipes[charge.recipe].limit).ok();
        charge
            .quota
            .as_deref()
            .copied()
            .or_else(|| rule.map(|rule| *rule.quota()))
    };
    let leases = charges.iter().filter_map(|charge| match quota(charge) {
        Some(Quota::Concurrency(places)) => Some(places.permit_timeout()),
        _ => None,
    });
    leases.min().unwrap_or(Micros::MAX)
}

/// Makes a charge what it should have been.
fn settle(plan: &Arc<Plan>, charge: Charge, cost: u64) {
    let limit = &plan.recipes[charge.recipe].limit;
    if cost < charge.cost {
        let mut refund = plan
            .limiter
            .refund(limit, &charge.key)
            .cost(charge.cost - cost);
        if let Some(quota) = &charge.quota {
            refund = refund.quota(**quota);
        }
        start::unheard(refund.into_future());
    } else if cost > charge.cost {
        start::to_the_end(charge_more(
            plan.clone(),
            Charge {
                cost: cost - charge.cost,
                ..charge
            },
        ));
    }
}

/// Charges what a request cost beyond the estimate: all of it, or what is left.
async fn charge_more(plan: Arc<Plan>, charge: Charge) -> Result<(), tollgate::Error> {
    let limit = &plan.recipes[charge.recipe].limit;
    let ask = |cost| {
        let ask = plan.limiter.check(limit, &charge.key).cost(cost);
        match &charge.quota {
            Some(quota) => ask.quota(**quota),
            None => ask,
        }
    };
    let decision = ask(charge.cost).await?;
    if !decision.is_allowed() && decision.remaining() > 0 {
        drop(ask(decision.remaining()).await?);
    }
    Ok(())
}
