//! Envoy's rate limit service: from the request to the response.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use hyper::header::HeaderValue;
use tollgate::store::Intent;
use tollgate_envoy::tonic::metadata::MetadataMap;
use tollgate_envoy::tonic::{Request, Response, Status, async_trait};
use tollgate_envoy::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse, RateLimitService};
use tollgate_gate::api::select_code;
use tollgate_gate::{AccessError, ActiveConfig, Gate, GateDecision, RequestOrigin};
use tollgate_rules::Permission;

use super::error::GrpcError;
use super::plan::RequestPlan;
use super::{descriptor, encode};
use crate::guard::presented_token;
use crate::listen::{PortLoad, RequestSlot};

type RateLimitResult = Result<Response<RateLimitResponse>, Status>;

/// Decides requests, and reserves and settles, by the active configuration.
#[derive(Clone, Debug)]
pub(super) struct GrpcRateLimiter {
    pub(super) gate: Arc<Gate>,
    load: Arc<PortLoad>,
    /// True after a request named tokens that no limit counts.
    has_unknown_tokens: Arc<AtomicBool>,
}

#[async_trait]
impl RateLimitService for GrpcRateLimiter {
    async fn should_rate_limit(&self, request: Request<RateLimitRequest>) -> RateLimitResult {
        let active = self.gate.active();
        let descriptors = &request.get_ref().descriptors;
        let _slot = match self.admit(&active, request.metadata(), descriptors) {
            Ok(slot) => slot,
            Err(error) => return self.refuse(error, descriptors.len()),
        };
        let origin = origin(&active, request.metadata());
        let request = request.into_inner();
        if active.decides_in_process() {
            return self.handle_now(&active, &request, &origin);
        }
        Box::pin(self.handle(&active, &request, &origin)).await
    }
}

impl GrpcRateLimiter {
    pub(super) fn new(gate: Arc<Gate>, load: Arc<PortLoad>) -> Self {
        Self {
            gate,
            load,
            has_unknown_tokens: Arc::default(),
        }
    }

    /// Takes a slot for a request that has arrived completely, and asks for its permissions.
    pub(super) fn admit(
        &self,
        active: &ActiveConfig,
        metadata: &MetadataMap,
        descriptors: &[RateLimitDescriptor],
    ) -> Result<RequestSlot<'_>, GrpcError> {
        let slot = self.load.try_request().ok_or_else(GrpcError::shed)?;
        authorize(active, metadata, descriptors)?;
        Ok(slot)
    }

    /// Counts an error, and answers with a denial or a gRPC error.
    fn refuse(&self, error: GrpcError, descriptors: usize) -> RateLimitResult {
        error.count(self.gate.metrics());
        let reason = match error {
            GrpcError::Status(_, status) => return Err(*status),
            GrpcError::Denied(_, reason) => reason,
            GrpcError::Refused(error) => error.to_string(),
        };
        Ok(Response::new(encode::denied(&reason, descriptors)))
    }

    /// Counts an entry with tokens that no limit counts, and logs the first one. The other limits
    /// decide: Envoy would take an error for an outage and let the request pass.
    pub(super) fn note_unknown_tokens(&self, plan: &RequestPlan<'_>) {
        let Some(error) = &plan.unknown_tokens else {
            return;
        };
        self.gate.metrics().count_error(select_code(error));
        if !self.has_unknown_tokens.swap(true, Relaxed) {
            tracing::warn!(%error, "ignoring a descriptor's entry; the other limits decide");
        }
    }

    /// Handles a request with a single poll, for a store in this process. The future of a decision has a few
    /// thousand bytes; not moving it to the heap saves a good part of a decision's time.
    fn handle_now(
        &self,
        active: &ActiveConfig,
        request: &RateLimitRequest,
        origin: &RequestOrigin,
    ) -> RateLimitResult {
        let result = pin!(self.handle(active, request, origin));
        match result.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(Status::internal("the in-process store did not reply")),
        }
    }

    async fn handle(
        &self,
        active: &ActiveConfig,
        request: &RateLimitRequest,
        origin: &RequestOrigin,
    ) -> RateLimitResult {
        match self.decide(active, request, origin).await {
            Ok(response) => Ok(Response::new(response)),
            Err(error) => self.refuse(error, request.descriptors.len()),
        }
    }

    async fn decide(
        &self,
        active: &ActiveConfig,
        request: &RateLimitRequest,
        origin: &RequestOrigin,
    ) -> Result<RateLimitResponse, GrpcError> {
        descriptor::validate(request)?;
        let plan = RequestPlan::new(active, request)?;
        self.note_unknown_tokens(&plan);

        if !plan.refunds.is_empty() {
            // Before the demands are charged, so that the response reports the refunded state. The
            // units were charged earlier and are refunded whatever is decided now.
            active.refund(&plan.refunds).await?;
        }

        let decision = self.spend(active, &plan, origin).await?;
        Ok(encode::decision(active, &plan, &decision, self.gate.now()))
    }

    /// Decides all descriptors together: all demands are charged, or none.
    async fn spend(
        &self,
        active: &ActiveConfig,
        plan: &RequestPlan<'_>,
        origin: &RequestOrigin,
    ) -> Result<GateDecision, GrpcError> {
        if let Some(demands) = plan.demands_with_peeks() {
            let peeked = self
                .gate
                .spend(active, &demands, Intent::Peek, origin)
                .await?;
            if !peeked.decision.is_allowed() || plan.is_free() {
                // The gate does not count peeks. This one is the request's decision, so count it.
                let now = self.gate.now();
                self.gate
                    .count(active, &demands, &peeked.decision, origin, now);
                return Ok(peeked);
            }
        }

        let intent = if plan.has_zero_limit() || plan.is_free() {
            Intent::Peek
        } else {
            Intent::Spend
        };
        let spending = self.gate.spend(active, &plan.demands, intent, origin);
        Ok(spending.await?)
    }
}

/// What a request says about itself, if denials are recorded.
pub(super) fn origin(active: &ActiveConfig, metadata: &MetadataMap) -> RequestOrigin {
    if active.config.audit_log.is_none() {
        return RequestOrigin::default();
    }
    let header = |name: &str| {
        let value = metadata.get(name)?;
        HeaderValue::from_bytes(value.as_encoded_bytes()).ok()
    };
    RequestOrigin {
        request_id: header("x-request-id"),
        traceparent: header("traceparent"),
    }
}

/// Requires the permissions for what descriptors ask for beyond a check, which the front requires.
fn authorize(
    active: &ActiveConfig,
    metadata: &MetadataMap,
    descriptors: &[RateLimitDescriptor],
) -> Result<(), AccessError> {
    if !active.requires_token() {
        return Ok(());
    }
    let has_refund = descriptors.iter().any(|own| own.is_negative_hits);
    let has_limit = descriptors.iter().any(|own| own.limit.is_some());

    let needed = [
        (has_refund, Permission::Refund),
        (has_limit, Permission::Inline),
    ];
    let token = presented_token(metadata.as_ref());
    for (_, permission) in needed.iter().filter(|(is_needed, _)| *is_needed) {
        active.require(token, *permission)?;
    }
    Ok(())
}
