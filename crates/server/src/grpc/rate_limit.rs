//! The rate limit service: from Envoy's question to its answer.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tollgate::store::Intent;
use tollgate_envoy::tonic::{Request, Response, Status, async_trait};
use tollgate_envoy::{RateLimitRequest, RateLimitResponse, RateLimitService};

use super::error::Fault;
use super::plan::Plan;
use super::{descriptor, encode};
use crate::gate::{ActiveConfig, Gate, GateDecision};

type Answered = Result<Response<RateLimitResponse>, Status>;

/// Decides by the configuration in force.
#[derive(Debug)]
pub(super) struct Decider {
    gate: Arc<Gate>,
}

#[async_trait]
impl RateLimitService for Decider {
    async fn should_rate_limit(&self, request: Request<RateLimitRequest>) -> Answered {
        let request = request.into_inner();
        let running = self.gate.active();
        if running.store.answers_at_once() {
            return self.decide_at_once(&running, &request);
        }
        Box::pin(self.answer(&running, &request)).await
    }
}

impl Decider {
    pub(super) const fn new(gate: Arc<Gate>) -> Self {
        Self { gate }
    }

    /// The same without waiting. A decision under way is a few thousand bytes, and not to have
    /// to keep them is a good part of the time that a decision takes.
    fn decide_at_once(&self, running: &ActiveConfig, request: &RateLimitRequest) -> Answered {
        let answer = pin!(self.answer(running, request));
        match answer.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => Err(Status::internal("the store did not answer at once")),
        }
    }

    async fn answer(&self, running: &ActiveConfig, request: &RateLimitRequest) -> Answered {
        match self.decide(running, request).await {
            Ok(response) => Ok(Response::new(response)),
            Err(Fault::Uncountable(why)) => Ok(Response::new(encode::uncountable(
                &why,
                request.descriptors.len(),
            ))),
            Err(Fault::Wrong(status)) => Err(*status),
        }
    }

    async fn decide(
        &self,
        running: &ActiveConfig,
        request: &RateLimitRequest,
    ) -> Result<RateLimitResponse, Fault> {
        descriptor::check(request)?;
        let plan = Plan::of(running, request)?;
        if !plan.returns.is_empty() {
            // First, so that what is told afterwards is true. It was taken once, whatever is
            // decided now.
            running.give_back(&plan.returns).await?;
        }
        let decided = self.spend(running, &plan).await?;
        Ok(encode::decided(running, &plan, &decided, self.gate.now()))
    }

    /// The decision about all descriptors together: every check is charged, or none.
    async fn spend(&self, running: &ActiveConfig, plan: &Plan<'_>) -> Result<GateDecision, Fault> {
        if let Some(checks) = plan.with_looks() {
            let looked = self.gate.spend(running, &checks, Intent::Peek).await?;
            if !looked.decision.is_allowed() || plan.is_free() {
                // To look is all that was asked, so what limits said counts like any other word of
                // theirs.
                running.count(&checks, &looked.decision);
                return Ok(looked);
            }
        }
        let intent = if plan.is_closed() || plan.is_free() {
            Intent::Peek
        } else {
            Intent::Spend
        };
        Ok(self.gate.spend(running, &plan.checks, intent).await?)
    }
}
