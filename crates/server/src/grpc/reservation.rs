//! Kuadrant's reservations: an estimate is charged before the work, the actual amount afterwards.

use std::time::Duration;

use hyper::StatusCode;
use tollgate::algorithm::AMOUNT_MAX;
use tollgate::limiter::{RESERVATION_TTL_DEFAULT, RESERVATION_TTL_MAX};
use tollgate::store::{Intent, SettlementKind};
use tollgate::{Micros, Quota};
use tollgate_envoy::tonic::{Request, Response, Status, async_trait};
use tollgate_envoy::{
    CommitRequest, CommitResponse, RateLimitDescriptor, RateLimitRequest, ReservationService,
    ReserveRequest, ReserveResponse,
};
use tollgate_gate::{
    ActiveConfig, Caller, DecideError, PermitTokenError, RequestOrigin, SettledCost,
};
use tollgate_http::Problem;
use tollgate_rules::Selection;

use super::error::GrpcError;
use super::plan::RequestPlan;
use super::rate_limit::{GrpcRateLimiter, origin};
use super::{descriptor, encode};
use crate::guard::presented_token;

/// The shortest time for which a reservation can be open.
const TTL_MIN: Duration = Duration::from_millis(1);

#[async_trait]
impl ReservationService for GrpcRateLimiter {
    async fn reserve(
        &self,
        request: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        let active = self.gate.active();
        let descriptors = &request.get_ref().descriptors;
        let _slot = match self.admit(&active, request.metadata(), descriptors) {
            Ok(slot) => slot,
            Err(error) => return self.refuse_reservation(error),
        };

        let origin = origin(&active, request.metadata());
        let request = request.into_inner();
        let reserved = self.reserve_estimate(&active, request, &origin).await;
        match reserved {
            Ok(response) => Ok(Response::new(response)),
            Err(error) => self.refuse_reservation(error),
        }
    }

    async fn commit(
        &self,
        request: Request<CommitRequest>,
    ) -> Result<Response<CommitResponse>, Status> {
        let active = self.gate.active();
        let descriptors = &request.get_ref().descriptors;
        let admitted = self.admit(&active, request.metadata(), descriptors);
        let _slot = admitted.map_err(|error| {
            error.count(self.gate.metrics());
            error.into_status()
        })?;

        let token = presented_token(request.metadata().as_ref());
        let caller = active.identify(token).map_err(GrpcError::from);
        let request = request.into_inner();
        let committed = match caller {
            Ok(caller) => self.charge_actual(&active, caller, request).await,
            Err(error) => Err(error),
        };
        // The work is done, so an error lets nothing pass. It tells that nothing was charged.
        let reservation_released = committed.map_err(|error| {
            error.count(self.gate.metrics());
            error.into_status()
        })?;
        Ok(Response::new(CommitResponse {
            reservation_released,
        }))
    }
}

impl GrpcRateLimiter {
    /// Counts an error, and answers with a denial or a gRPC error.
    fn refuse_reservation(&self, error: GrpcError) -> Result<Response<ReserveResponse>, Status> {
        error.count(self.gate.metrics());
        match error {
            GrpcError::Status(_, status) => Err(*status),
            GrpcError::Denied(..) | GrpcError::Refused(_) => {
                Ok(Response::new(encode::denied_reservation()))
            }
        }
    }

    /// Charges the estimate until it is settled: for all descriptors, or for none.
    async fn reserve_estimate(
        &self,
        active: &ActiveConfig,
        request: ReserveRequest,
        origin: &RequestOrigin,
    ) -> Result<ReserveResponse, GrpcError> {
        let ttl = ttl(request.ttl)?;
        // The client may choose the estimate, and proxies let requests pass on an error. So zero means
        // the cost of the limit, and one beyond all limits is reduced like every other one.
        let estimate = Some(request.amount).filter(|amount| *amount > 0);
        let estimate = estimate.map(|amount| amount.min(AMOUNT_MAX));
        let request = charge(request.domain, request.descriptors, estimate);
        descriptor::validate(&request)?;
        let plan = RequestPlan::new(active, &request)?;
        plan.require_known_tokens()?;

        let decision = if plan.has_zero_limit() {
            self.gate
                .spend(active, &plan.demands, Intent::Peek, origin)
                .await?
        } else {
            let (gate, demands) = (&self.gate, plan.demands.clone());
            gate.reserve(active, demands, &[], ttl, origin).await?
        };
        Ok(encode::reservation(
            active,
            &plan,
            decision,
            self.gate.now(),
        ))
    }

    /// Charges the actual amount, always all of it. Returns whether a reservation was open.
    async fn charge_actual(
        &self,
        active: &ActiveConfig,
        caller: Caller,
        request: CommitRequest,
    ) -> Result<bool, GrpcError> {
        let CommitRequest {
            domain,
            descriptors,
            reservation_id,
            actual_amount,
        } = request;

        match self.gate.open_reservation(caller, &reservation_id).await {
            Ok(reservation) => {
                let actual = SettledCost {
                    units: Some(actual_amount),
                    tokens: &[],
                };
                let settled = self.gate.settle(&reservation, Some(actual)).await?;
                return Ok(settled.kind == SettlementKind::Reserved);
            }
            Err(PermitTokenError::Access(error)) => return Err(error.into()),
            Err(PermitTokenError::Select(error)) => return Err(error.into()),
            Err(PermitTokenError::Store(error)) => {
                return Err(DecideError::from(tollgate::Error::Store(error)).into());
            }
            // Without a reservation that is known, the amount is a plain charge. The protocol has no
            // place for the reason, so the metric of errors has it.
            Err(_) if reservation_id.is_empty() => {}
            Err(_) => self.gate.metrics().count_error("bad-reservation"),
        }

        let request = charge(domain, descriptors, Some(actual_amount));
        descriptor::validate(&request)?;
        self.count(active, &request).await?;
        Ok(false)
    }

    /// Charges the descriptors whether they fit or not.
    async fn count(
        &self,
        active: &ActiveConfig,
        request: &RateLimitRequest,
    ) -> Result<(), GrpcError> {
        let plan = RequestPlan::new(active, request)?;
        plan.require_known_tokens()?;

        // A permit is left out: the work is done, and no client would release it.
        let is_rate = |demand: &&_| !is_concurrency(demand);
        let demands = plan.demands.iter().filter(is_rate).cloned();
        let costs = demands.map(|demand| active.with_constant_cost(demand));
        let demands: Selection<'_> = costs.filter(|demand| demand.cost > 0).collect();
        if demands.is_empty() {
            return Ok(());
        }

        let counted = self
            .gate
            .spend(active, &demands, Intent::Count, RequestOrigin::UNKNOWN)
            .await?;
        let problem = Problem::denied(&counted.decision);
        match problem.filter(|problem| problem.status == StatusCode::SERVICE_UNAVAILABLE) {
            None => Ok(()),
            Some(_) => Err(GrpcError::not_charged()),
        }
    }
}

fn is_concurrency(demand: &tollgate::Demand<'_, tollgate::EncodedKey>) -> bool {
    matches!(demand.quota(), Quota::Concurrency(_))
}

/// The request that charges each descriptor this cost, or that of the limit. Costs of the
/// descriptors themselves are for `ShouldRateLimit`.
fn charge(
    domain: String,
    mut descriptors: Vec<RateLimitDescriptor>,
    cost: Option<u64>,
) -> RateLimitRequest {
    for descriptor in &mut descriptors {
        descriptor.hits_addend = cost;
        descriptor.is_negative_hits = false;
    }
    RateLimitRequest {
        domain,
        descriptors,
        hits_addend: 0,
    }
}

/// How long a reservation is open.
fn ttl(sent: Option<tollgate_envoy::Duration>) -> Result<Micros, GrpcError> {
    let length = match sent {
        None => Some(RESERVATION_TTL_DEFAULT),
        Some(sent) => Duration::try_from(sent).ok(),
    };
    let valid = length.filter(|length| (TTL_MIN..=RESERVATION_TTL_MAX).contains(length));

    valid.and_then(Micros::from_duration).ok_or_else(|| {
        let tollgate_envoy::Duration { seconds, nanos } = sent.unwrap_or_default();
        GrpcError::invalid(format!(
            "invalid ttl of {seconds} s and {nanos} ns; expected between 1 ms and 1 h, or no ttl \
             for 60 s"
        ))
    })
}
