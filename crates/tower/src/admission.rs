//! Admission: checks the demands of a request and decides whether it is admitted or rejected.

use std::slice;
use std::sync::Arc;
use std::task::Context;

use http::{Request, Response};
use smallvec::smallvec;
use tollgate::limiter::Acquisition;
use tollgate::store::Intent;
use tollgate::{Decision, Demand, EncodedKey, Error, Micros, Quota};
use tollgate_http::Fields;

use crate::limit::{LayerLimit, OwnedDemand};
use crate::observe::{log, metrics};
use crate::permit_guard::PermitGuard;
use crate::policy::{AdmissionPath, LayerPolicy};
use crate::rejection::RejectionCause;
use crate::request_head::RequestHead;
use crate::response::ResponseHead;
use crate::response_body::ResponseBody;
use crate::settlement::PendingSettlement;

/// Whether a request is admitted: what to do with its response, or why it is rejected. `None` if
/// the layer has nothing to do with the response.
pub(crate) type AdmissionResult = Result<Option<Box<AdmittedRequest>>, Box<RejectionCause>>;

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
pub(crate) fn try_admit<B>(
    policy: &Arc<LayerPolicy>,
    path: AdmissionPath,
    request: &mut Request<B>,
) -> SyncAdmission {
    policy.monitor.count_request();
    if path == AdmissionPath::Waiting {
        return SyncAdmission::Incomplete(None);
    }

    let head = RequestHead::new(request);
    let demand = match policy.only_demand(&head) {
        Ok(Some(demand)) => demand,
        Ok(None) => return SyncAdmission::Complete(Ok(None)),
        Err(cause) => return SyncAdmission::Complete(Err(cause)),
    };

    let demands = slice::from_ref(&demand);
    // A denial charges nothing, so it is decided again for its details, unless it counts towards a
    // lockout.
    let is_repeatable = demand.limit.lockout().is_none();
    if path == AdmissionPath::Verdict && is_repeatable && !log::traces_decisions() {
        let check = policy.limiter.request(demands, Intent::Spend);
        match check.try_is_allowed() {
            Ok(true) => {
                policy.monitor.track_degradation(false);
                policy.record_admission(request);
                return SyncAdmission::Complete(Ok(None));
            }
            Ok(false) => {}
            Err(error) => return SyncAdmission::without_decision(&error, demand),
        }
    }

    let started = metrics::start(&policy.limiter);
    let intent = policy.intent(demands);
    match intent.and_then(|intent| policy.limiter.request(demands, intent).try_now()) {
        Ok(decision) => {
            observe(policy, &head, &decision, started);
            SyncAdmission::Complete(conclude(policy, request, demands, decision, None))
        }
        Err(error) => SyncAdmission::without_decision(&error, demand),
    }
}

impl SyncAdmission {
    /// A request that the limiter has not decided: it must wait, or the layer is set up wrongly.
    #[cold]
    fn without_decision(error: &Error, demand: Demand<'_, EncodedKey>) -> Self {
        match error {
            Error::WouldBlock => Self::Incomplete(Some(demand.into())),
            error => Self::Complete(Err(RejectionCause::misconfigured(error))),
        }
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
    conclude(policy, request, &demands, decision, permit)
}

/// Checks all demands together, and waits as long as the policy and the queue limits allow.
async fn decide(
    policy: &LayerPolicy,
    demands: &[Demand<'_, EncodedKey>],
) -> Result<(Decision, Option<PermitGuard>), Error> {
    let check = policy.limiter.request(demands, policy.intent(demands)?);
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
    demands: &[Demand<'_, EncodedKey>],
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
        let demands = demands.iter().cloned().map(OwnedDemand::from);
        let settlement = PendingSettlement::new(policy, request, demands, &decision, permit);
        Box::new(settlement)
    });
    let fields =
        enabled.map(|enabled| Fields::new(&decision, enabled, policy.limiter.clock().now()));
    Ok(Some(Box::new(AdmittedRequest { fields, settlement })))
}

impl AdmittedRequest {
    /// Renews the permit, if one is held, while the application handles the request.
    pub(crate) fn renew_permit(&mut self, context: &mut Context<'_>) {
        if let Some(settlement) = &mut self.settlement {
            settlement.renew_permit(context);
        }
    }

    /// Turns the application's response into the one that the client gets.
    pub(crate) fn into_response<B>(
        mut self,
        mut response: Response<B>,
    ) -> Response<ResponseBody<B>> {
        if let Some(settlement) = &mut self.settlement {
            let head = ResponseHead::new(&response);
            if !head.is_unfinished_call() {
                settlement.settle(&head);
            }
        }

        if let Some(fields) = self.fields {
            fields.add_to(response.headers_mut());
        }
        let settlement = self.settlement.filter(|settlement| settlement.is_pending());
        ResponseBody::wrap(response, settlement)
    }

    /// Settles a request whose service failed without a response.
    pub(crate) fn fail(mut self) {
        if let Some(settlement) = &mut self.settlement {
            settlement.settle(&ResponseHead::NONE);
        }
    }
}
