//! Admission: checks the demands of a request and decides whether it is admitted or rejected.

use std::iter;
use std::sync::Arc;
use std::task::Context;

use http::{Request, Response};
use smallvec::smallvec;
use tollgate::limiter::Acquisition;
use tollgate::{Decision, Demand, EncodedKey, Error, KeyParts, Micros, Quota};
use tollgate_http::{Fields, LimitState};

use crate::limit::{LayerLimit, OwnedDemand};
use crate::observe::{log, metrics};
use crate::permit_guard::PermitGuard;
use crate::policy::{AdmissionPath, LayerPolicy};
use crate::rejection::RejectionCause;
use crate::request_head::RequestHead;
use crate::response::ResponseHead;
use crate::response_body::{ResponseBody, ServiceResult};
use crate::settlement::PendingSettlement;

/// Whether a request is admitted: what to do with its response, or why it is rejected. `None` if
/// the layer has nothing to do with the response.
pub(crate) type AdmissionResult = Result<Option<ResponseTask>, Box<RejectionCause>>;

/// What the layer does with the response to an admitted request. It is small, because outer layers
/// move it many times with the future.
pub(crate) enum ResponseTask {
    /// It adds the fields of the only limit, which has this state.
    AddState {
        policy: Arc<LayerPolicy>,
        state: LimitState,
    },
    /// Anything else.
    Finish(Box<AdmittedRequest>),
}

/// How far a request got without waiting.
pub(crate) enum SyncAdmission {
    /// The request is decided.
    Complete(AdmissionResult),
    /// The rest needs [`admit`]. Holds the demand of the only limit if it has been computed, so
    /// that the functions of the application are called once per request.
    Incomplete(Option<OwnedDemand>),
}

/// An admitted request, until its response arrives.
pub(crate) struct AdmittedRequest {
    /// The fields to add to the response.
    fields: Option<Fields>,
    /// `None` if the response does not change what was charged and no permit is held.
    settlement: Option<Box<PendingSettlement>>,
}

/// Decides about a request without waiting, if that is possible.
#[inline]
pub(crate) fn try_admit<B>(
    policy: &Arc<LayerPolicy>,
    path: AdmissionPath,
    request: &mut Request<B>,
) -> SyncAdmission {
    let is_inspected = policy.monitor.count_request();
    if path == AdmissionPath::Waiting {
        return SyncAdmission::Incomplete(None);
    }

    let head = RequestHead::new(request);
    // The key stays where it is written, because copying it takes longer than deciding.
    let mut parts = KeyParts::default();
    let limit = match policy.only_limit(&head, &mut parts) {
        Ok(Some(limit)) => limit,
        Ok(None) => return SyncAdmission::Complete(Ok(None)),
        Err(cause) => return SyncAdmission::Complete(Err(cause)),
    };

    // A denial charges nothing, so it is decided again for its details.
    let is_silent = !log::traces_decisions();
    let check = policy.limiter.with_rule(&limit.rule).check(&parts);
    if path == AdmissionPath::Verdict && is_silent && matches!(check.try_is_allowed(), Ok(true)) {
        policy.record_allowed(request, is_inspected);
        return SyncAdmission::Complete(Ok(None));
    }
    if path == AdmissionPath::State
        && is_silent
        && let Some(fields) = &policy.state_fields
        && let Ok(outcome) = check.try_outcome()
        && outcome.outcome().verdict.is_allowed()
    {
        policy.record_allowed(request, is_inspected);
        let state = fields.state(&outcome, policy.limiter.clock().now());
        let policy = policy.clone();
        let task = ResponseTask::AddState { policy, state };
        return SyncAdmission::Complete(Ok(Some(task)));
    }
    try_decide(policy, limit, request, &parts)
}

/// Decides about a request with this key without waiting, if that is possible, with every detail.
#[inline(never)]
fn try_decide<B>(
    policy: &Arc<LayerPolicy>,
    limit: &LayerLimit,
    request: &mut Request<B>,
    parts: &KeyParts,
) -> SyncAdmission {
    let head = RequestHead::new(request);
    let demand = limit.demand(&head, parts);
    let started = metrics::start(&policy.limiter);
    let intent = policy.intent(iter::once(limit));
    match intent.and_then(|intent| policy.limiter.request_one(&demand, intent).try_now()) {
        Ok(decision) => {
            observe(policy, &head, &decision, started);
            let demands = iter::once_with(|| OwnedDemand::from_parts(&demand)).flatten();
            SyncAdmission::Complete(conclude(policy, request, demands, decision, None))
        }
        Err(error) => SyncAdmission::without_decision(&error, limit, &demand),
    }
}

impl SyncAdmission {
    /// A request that the limiter has not decided: it must wait, its key is invalid, or the layer is
    /// set up wrongly.
    #[cold]
    fn without_decision(error: &Error, limit: &LayerLimit, demand: &Demand<'_, &KeyParts>) -> Self {
        let cause = match (error, OwnedDemand::from_parts(demand)) {
            (Error::WouldBlock, Ok(demand)) => return Self::Incomplete(Some(demand)),
            (_, Err(source)) => limit.invalid_key(source),
            (error, Ok(_)) => RejectionCause::misconfigured(error),
        };
        Self::Complete(Err(cause))
    }
}

/// Decides about a request, and waits if necessary. `demand` is the demand of the only limit if
/// [`try_admit`] has computed it.
pub(crate) async fn admit<B>(
    policy: &Arc<LayerPolicy>,
    request: &mut Request<B>,
    demand: Option<OwnedDemand>,
) -> AdmissionResult {
    let demands = if let Some(demand) = demand {
        smallvec![policy.restore(demand)]
    } else {
        for look_up in &policy.lookups {
            let found = look_up(&RequestHead::new(request)).await;
            request.extensions_mut().extend(found);
        }
        policy.demands(&RequestHead::new(request))?
    };
    if demands.is_empty() {
        return Ok(None);
    }

    let started = metrics::start(&policy.limiter);
    let result = decide(policy, &demands).await;
    let (decision, permit) = result.map_err(|error| RejectionCause::misconfigured(&error))?;

    observe(policy, &RequestHead::new(request), &decision, started);
    let demands = demands.into_iter().map(OwnedDemand::from);
    conclude(policy, request, demands, decision, permit)
}

/// Checks all demands together, and waits as long as the policy and the queue limits allow.
async fn decide(
    policy: &LayerPolicy,
    demands: &[Demand<'_, EncodedKey>],
) -> Result<(Decision, Option<PermitGuard>), Error> {
    let limits = demands.iter().map(|demand| demand.limit.position());
    let intent = policy.intent(limits.map(|position| &policy.limits[position]))?;
    let check = policy.limiter.request(demands, intent);
    let Some(permit_timeout) = shortest_permit_timeout(demands) else {
        let decision = match policy.max_wait {
            Some(max_wait) => check.wait_up_to(max_wait).await?,
            None => check.wait_in_queue().await?,
        };
        return Ok((decision, None));
    };

    let acquisition = match policy.max_wait {
        Some(max_wait) => check.acquire_up_to(max_wait).await?,
        None => check.acquire_in_queue().await?,
    };
    Ok(match acquisition {
        Acquisition::Denied(decision) => (decision, None),
        Acquisition::Acquired(permit) => {
            let decision = permit.decision().clone();
            let guard = PermitGuard::new(permit, policy.limiter.clock(), permit_timeout);
            (decision, Some(guard))
        }
    })
}

/// The shortest timeout of the permits that a request needs; `None` if it needs none.
fn shortest_permit_timeout(demands: &[Demand<'_, EncodedKey>]) -> Option<Micros> {
    let needed = demands.iter().filter(|demand| demand.needs_permit());
    let timeouts = needed.filter_map(|demand| match demand.quota() {
        Quota::Concurrency(concurrency) => Some(concurrency.permit_timeout()),
        _ => None,
    });
    timeouts.min()
}

/// Calls the hooks, logs a decision and records its metrics. `started` is when the check started.
fn observe(
    policy: &LayerPolicy,
    head: &RequestHead<'_>,
    decision: &Decision,
    started: Option<Micros>,
) {
    policy.hooks.call(head, decision);
    policy.monitor.track_degradation(decision.is_degraded());
    log::decision(decision);
    metrics::record(&policy.limiter, decision, started);
}

/// Turns a decision into the admission result.
#[inline]
fn conclude<B>(
    policy: &Arc<LayerPolicy>,
    request: &mut Request<B>,
    demands: impl Iterator<Item = OwnedDemand>,
    decision: Decision,
    permit: Option<PermitGuard>,
) -> AdmissionResult {
    if !decision.is_allowed() {
        return Err(Box::new(RejectionCause::Denied(decision)));
    }
    policy.record_admission(request);

    let needs_settlement =
        permit.is_some() || policy.limits.iter().any(LayerLimit::depends_on_response);
    let enabled = policy.fields.filter(|fields| fields.apply_to(&decision));
    if !needs_settlement && enabled.is_none() {
        return Ok(None);
    }

    let settlement = needs_settlement.then(|| {
        let settlement = PendingSettlement::new(policy, request, demands, &decision, permit);
        Box::new(settlement)
    });
    let fields =
        enabled.map(|enabled| Fields::new(&decision, enabled, policy.limiter.clock().now()));
    let admitted = AdmittedRequest { fields, settlement };
    Ok(Some(ResponseTask::Finish(Box::new(admitted))))
}

impl ResponseTask {
    /// Renews the permit, if one is held, while the application handles the request.
    #[inline]
    pub(crate) fn renew_permit(&mut self, context: &mut Context<'_>) {
        if let Self::Finish(admitted) = self {
            admitted.renew_permit(context);
        }
    }

    /// Turns the result of the application into that of the layer. A function of its own, so that
    /// the path of requests without a task moves the response once.
    #[inline(never)]
    pub(crate) fn finish<B, E>(self, mut result: Result<Response<B>, E>) -> ServiceResult<B, E> {
        match self {
            Self::AddState { policy, state } => {
                if let (Ok(response), Some(fields)) = (&mut result, &policy.state_fields) {
                    fields.add_to(state, response.headers_mut());
                }
                result.map(ResponseBody::wrap)
            }
            Self::Finish(admitted) => admitted.finish(result),
        }
    }
}

impl AdmittedRequest {
    /// Renews the permit, if one is held, while the application handles the request.
    pub(crate) fn renew_permit(&mut self, context: &mut Context<'_>) {
        if let Some(settlement) = &mut self.settlement {
            settlement.renew_permit(context);
        }
    }

    /// Turns the result of the application into that of the layer.
    fn finish<B, E>(mut self, result: Result<Response<B>, E>) -> ServiceResult<B, E> {
        if result.is_err()
            && let Some(settlement) = &mut self.settlement
        {
            settlement.settle(&ResponseHead::NONE);
        }
        result.map(|response| self.into_response(response))
    }

    /// Turns the application's response into the one that the client gets.
    fn into_response<B>(mut self, mut response: Response<B>) -> Response<ResponseBody<B>> {
        if let Some(settlement) = &mut self.settlement {
            let head = ResponseHead::new(&response);
            if !head.is_unfinished_call() {
                settlement.settle(&head);
            }
        }

        if let Some(fields) = self.fields {
            fields.add_to(response.headers_mut());
        }
        match self.settlement {
            Some(settlement) if settlement.is_pending() => {
                ResponseBody::wrap_settled(response, settlement)
            }
            _ => ResponseBody::wrap(response),
        }
    }
}
