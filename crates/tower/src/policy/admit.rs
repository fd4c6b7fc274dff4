//! Admission: checks the demands of a request and decides whether it is admitted or rejected.

use std::sync::Arc;

use http::Request;
use smallvec::smallvec;
use tollgate::limiter::{Acquisition, Check, Demands};
use tollgate::store::Intent;
use tollgate::{Decision, Demand, EncodedKey, Error, Permit};

use super::{LayerDemand, LayerDemands, LayerLimit, LayerPolicy, LimitKind};
use crate::admitted::{AdmittedRequest, Settlement};
use crate::rejection::RejectionCause;
use crate::request_head::RequestHead;

/// Whether a request is admitted.
pub(crate) enum AdmissionResult {
    /// The request goes to the application. `None` if the layer has nothing to do with the
    /// response.
    Admitted(Option<Box<AdmittedRequest>>),
    Rejected(Box<RejectionCause>),
}

/// How far a request got without waiting.
pub(crate) enum SyncAdmission {
    /// The request is decided.
    Complete(AdmissionResult),
    /// The rest needs [`LayerPolicy::admit`]. Holds the demand of the only limit if it has been
    /// computed, so that the functions of the application are called once per request.
    Incomplete(Option<LayerDemand>),
}

impl LayerPolicy {
    /// Decides about a request without waiting, if that is possible.
    pub(crate) fn try_admit<B>(self: &Arc<Self>, request: &mut Request<B>) -> SyncAdmission {
        self.monitor.count_request();
        if !self.is_synchronous() {
            return SyncAdmission::Incomplete(None);
        }

        let head = RequestHead::new(request);
        let demand = match self.only_demand(&head) {
            Ok(Some(demand)) => demand,
            Ok(None) => return SyncAdmission::Complete(AdmissionResult::Admitted(None)),
            Err(cause) => return SyncAdmission::Complete(AdmissionResult::Rejected(cause)),
        };

        let started = self.started();
        let mut check = self
            .limiter
            .check(&self.limits[demand.limit_index].name, &demand.key)
            .cost(demand.cost);
        if let Some(quota) = &demand.quota {
            check = check.quota(**quota);
        }
        let decision = match check.try_now() {
            Ok(decision) => decision,
            Err(Error::WouldBlock) => return SyncAdmission::Incomplete(Some(demand)),
            Err(error) => {
                return SyncAdmission::Complete(AdmissionResult::Rejected(misconfigured(&error)));
            }
        };

        self.observe(&head, &decision, started);
        SyncAdmission::Complete(self.conclude(request, || smallvec![demand], decision, None))
    }

    /// Decides about a request, and waits if necessary. `demand` is the demand of the only limit if
    /// [`try_admit`](Self::try_admit) has computed it.
    pub(crate) async fn admit<B>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        demand: Option<LayerDemand>,
    ) -> AdmissionResult {
        let demands = if let Some(demand) = demand {
            Ok(smallvec![demand])
        } else {
            self.run_lookups(request).await;
            self.demands(&RequestHead::new(request))
        };
        let demands = match demands {
            Ok(demands) if demands.is_empty() => return AdmissionResult::Admitted(None),
            Ok(demands) => demands,
            Err(cause) => return AdmissionResult::Rejected(cause),
        };

        let started = self.started();
        match self.decide(&demands).await {
            Ok((decision, permit)) => {
                self.observe(&RequestHead::new(request), &decision, started);
                self.conclude(request, || demands, decision, permit)
            }
            Err(error) => AdmissionResult::Rejected(misconfigured(&error)),
        }
    }

    /// Whether the policy itself never has to wait: one limit that is neither a queue nor a
    /// concurrency limit, no lookups and no `wait_up_to`.
    fn is_synchronous(&self) -> bool {
        let is_rate_only = matches!(
            self.limits.as_slice(),
            [LayerLimit {
                kind: LimitKind::Rate,
                ..
            }]
        );
        is_rate_only && self.max_wait.is_none() && self.lookups.is_empty()
    }

    /// Inserts the results of the lookups into the request's extensions.
    async fn run_lookups<B>(&self, request: &mut Request<B>) {
        for look_up in &self.lookups {
            let result = look_up(&RequestHead::new(request));
            result.await(request.extensions_mut());
        }
    }

    /// Checks all demands together.
    async fn decide(&self, demands: &LayerDemands) -> Result<(Decision, Option<Permit>), Error> {
        let needs_permit = demands.iter().any(|demand| {
            self.limits[demand.limit_index].kind == LimitKind::Concurrency && demand.cost > 0
        });

        let demands: Vec<Demand<'_, EncodedKey>> = demands
            .iter()
            .map(|demand| {
                let limit = self.limiter.rule(&self.limits[demand.limit_index].name)?;
                let quota = demand.quota.as_deref().copied();
                Ok(Demand::new(limit, demand.key.clone())
                    .with_cost(demand.cost)
                    .with_quota(quota))
            })
            .collect::<Result<_, Error>>()?;
        let check = self.limiter.request(&demands, Intent::Spend);
        self.run_check(check, needs_permit).await
    }

    /// Runs a check, and waits as long as the policy and the queue limits allow.
    async fn run_check<'a, D: Demands<'a>>(
        &self,
        check: Check<'a, D>,
        needs_permit: bool,
    ) -> Result<(Decision, Option<Permit>), Error> {
        if !needs_permit {
            let decision = match self.max_wait {
                Some(max_wait) => check.wait_up_to(max_wait).await?,
                None => check.wait_in_queue().await?,
            };
            return Ok((decision, None));
        }

        let acquisition = match self.max_wait {
            Some(max_wait) => check.acquire_up_to(max_wait).await?,
            None => check.acquire_in_queue().await?,
        };
        Ok(match acquisition {
            Acquisition::Acquired(permit) => (permit.decision().clone(), Some(permit)),
            Acquisition::Denied(decision) => (decision, None),
        })
    }

    /// Turns a decision into the admission result. `demands` is called only if the settlement needs
    /// them.
    #[inline]
    fn conclude<B>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        demands: impl FnOnce() -> LayerDemands,
        decision: Decision,
        permit: Option<Permit>,
    ) -> AdmissionResult {
        if !decision.is_allowed() {
            return AdmissionResult::Rejected(Box::new(RejectionCause::Denied(decision)));
        }
        self.monitor
            .record_admission(self, request.extensions_mut());

        let needs_settlement =
            permit.is_some() || self.limits.iter().any(LayerLimit::depends_on_response);
        if !needs_settlement && !self.fields.apply_to(&decision) {
            return AdmissionResult::Admitted(None);
        }

        let settlement = needs_settlement
            .then(|| Box::new(Settlement::new(self, request, demands(), &decision, permit)));
        let admitted = AdmittedRequest::new(self, decision, settlement);
        AdmissionResult::Admitted(Some(Box::new(admitted)))
    }
}

/// An error of the limiter. Failure policies decide when the store is unavailable, so what is left
/// is a mistake in the application, such as a quota of another algorithm.
#[cold]
fn misconfigured(error: &Error) -> Box<RejectionCause> {
    Box::new(RejectionCause::Misconfigured {
        reason: error.to_string(),
    })
}
