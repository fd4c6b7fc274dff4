//! The policy of a layer: which limits it applies to a request, under which keys and at which cost.
//! It is only read once the layer is built.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, Request};
use smallvec::SmallVec;
use tollgate::limiter::reservation_ttl;
use tollgate::store::Intent;
use tollgate::{Demand, EncodedKey, Error, KeyParts, Limiter};
use tollgate_http::{EnabledFields, LimitFields};

use crate::by::KeyExtractor;
use crate::limit::{LayerLimit, OwnedDemand, RequestFn};
use crate::observe::{DecisionHooks, LayerMonitor, metrics, warning};
use crate::rejection::{RejectionCause, RejectionHandler};
use crate::request_head::RequestHead;

/// How long the estimate of a request waits for the actual cost by default. It is longer than most
/// responses take, because the cost of a later one is charged in addition to its estimate.
pub(crate) const RESERVATION_TTL: Duration = Duration::from_secs(600);

/// Everything a [`RateLimitLayer`](crate::RateLimitLayer) is configured with.
#[derive(Clone)]
pub(crate) struct LayerPolicy {
    pub(crate) limiter: Limiter,
    pub(crate) limits: Vec<LayerLimit>,
    /// `None` if no request is exempt or rejected by a list.
    lists: Option<Box<RequestLists>>,
    pub(crate) lookups: Vec<LookupFn>,
    /// How long a request may wait until the limits admit it; `None` if requests wait in queue
    /// limits only.
    pub(crate) max_wait: Option<Duration>,
    /// How long the estimate of a request may wait for the actual cost.
    pub(crate) reservation_ttl: Duration,
    /// `None` if responses are left as they are. On outgoing calls their fields describe the limits
    /// of the remote service.
    pub(crate) fields: Option<EnabledFields>,
    /// The fields of the only limit, if they need nothing but its state.
    pub(crate) state_fields: Option<LimitFields>,
    /// `None` for the default response.
    pub(crate) respond: Option<RejectionHandler>,
    pub(crate) hooks: DecisionHooks,
    pub(crate) monitor: Arc<LayerMonitor>,
    /// The first limit that the limiter does not have. As long as it is set, every request is
    /// rejected with status 500, so that none passes unlimited by mistake.
    unknown_limit: Option<Box<str>>,
}

/// The requests that are not counted.
#[derive(Clone, Default)]
pub(crate) struct RequestLists {
    /// The allow list: requests that pass.
    pub(crate) skip: Vec<RequestFn<bool>>,
    /// The deny list: requests that are rejected.
    pub(crate) deny: Vec<RequestFn<bool>>,
}

/// The way on which a layer admits requests. It only depends on the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionPath {
    /// A request may have to wait: for one of several limits, a queue, a permit or a lookup. Also
    /// the way of requests to a layer that is set up wrongly.
    Waiting,
    /// There is one limit, which the store may be able to decide without waiting.
    Decision,
    /// Like `Decision`, and every request takes one unit of the limit's own quota, and of one that
    /// is allowed only the state of the limit matters, for the fields of its response.
    State,
    /// Like `State`, and of an allowed request only the verdict matters.
    Verdict,
}

/// Looks up something about a request asynchronously, such as its user, to be added to the request's
/// extensions.
pub(crate) type LookupFn = RequestFn<Pin<Box<dyn Future<Output = Extensions> + Send>>>;

/// The demands of one request, one per limit that applies to it.
pub(crate) type LayerDemands<'p> = SmallVec<[Demand<'p, EncodedKey>; 1]>;

impl LayerPolicy {
    pub(crate) fn new(limiter: &Limiter) -> Self {
        Self {
            limiter: limiter.clone(),
            limits: Vec::new(),

            lists: None,
            lookups: Vec::new(),
            max_wait: None,
            reservation_ttl: RESERVATION_TTL,

            fields: Some(EnabledFields::default()),
            state_fields: None,
            respond: None,
            hooks: DecisionHooks::default(),
            monitor: Arc::default(),
            unknown_limit: None,
        }
    }

    /// Adds a limit, or notes that the limiter does not have it.
    pub(crate) fn add_limit(&mut self, name: &str, key: impl KeyExtractor) {
        let Ok(rule) = self.limiter.rule(name) else {
            self.unknown_limit.get_or_insert_with(|| name.into());
            return;
        };

        if self
            .limits
            .iter()
            .any(|limit| limit.rule.name() == rule.name())
        {
            warning::LIMIT_APPLIED_TWICE.log(name);
        }
        let index = u32::try_from(self.limits.len()).unwrap_or(u32::MAX);
        let limit = LayerLimit::new(&rule.with_position(index), key);
        self.limits.push(limit);
    }

    /// The mistake in the configuration, if there is one.
    pub(crate) fn error(&self) -> Option<Error> {
        match &self.unknown_limit {
            Some(name) => self.limiter.rule(name).err(),
            None => reservation_ttl(self.reservation_ttl).err(),
        }
    }

    /// What a request does under these limits: it reserves its estimates if it has any.
    #[inline]
    pub(crate) fn intent<'l>(
        &self,
        mut limits: impl Iterator<Item = &'l LayerLimit>,
    ) -> Result<Intent, Error> {
        if !limits.any(LayerLimit::is_estimated) {
            return Ok(Intent::Spend);
        }
        let ttl = reservation_ttl(self.reservation_ttl)?;
        Ok(Intent::Reserve { ttl })
    }

    /// The way on which requests are admitted.
    pub(crate) fn path(&self) -> AdmissionPath {
        let may_wait = self.max_wait.is_some() || !self.lookups.is_empty();
        match &self.limits[..] {
            [limit] if !may_wait && !limit.may_wait() && self.unknown_limit.is_none() => {
                self.path_without_waiting(limit)
            }
            _ => AdmissionPath::Waiting,
        }
    }

    /// The way if the only limit is decided without waiting.
    fn path_without_waiting(&self, limit: &LayerLimit) -> AdmissionPath {
        if !self.is_plain(limit) {
            AdmissionPath::Decision
        } else if !self.fields.is_some_and(EnabledFields::describe_allowed) {
            AdmissionPath::Verdict
        } else if self.state_fields.is_some() {
            AdmissionPath::State
        } else {
            AdmissionPath::Decision
        }
    }

    /// Writes in advance what the fields of responses say about the only limit. To be called when
    /// the policy is complete.
    pub(crate) fn prepare_fields(&mut self) {
        self.state_fields = match (&self.limits[..], self.fields) {
            ([limit], Some(enabled)) => LimitFields::new(&limit.rule, enabled),
            _ => None,
        };
    }

    /// The lists, to add something to them.
    pub(crate) fn lists_mut(&mut self) -> &mut RequestLists {
        self.lists.get_or_insert_default()
    }

    /// Whether every request takes one unit of the limit's own quota, no hook, metric or settlement
    /// depends on the decision about an allowed one, and a denial can be repeated, because it does
    /// not count towards a lockout.
    fn is_plain(&self, limit: &LayerLimit) -> bool {
        limit.takes_one_unit()
            && self.hooks.allowed.is_empty()
            && !metrics::ARE_RECORDED
            && !limit.depends_on_response()
            && !limit.rule.is_shadow()
            && limit.rule.lockout().is_none()
    }

    /// Records that the store has allowed a request, and that it is charged if it is inspected.
    #[inline]
    pub(crate) fn record_allowed<B>(&self, request: &mut Request<B>, is_inspected: bool) {
        self.monitor.track_degradation(false);
        if is_inspected {
            self.record_admission(request);
        }
    }

    /// Records in an admitted request that it is charged for the limits of the layer.
    pub(crate) fn record_admission<B>(&self, request: &mut Request<B>) {
        let names = self.limits.iter().map(|limit| limit.rule.name());
        self.monitor
            .record_admission(&self.limiter, names, request.extensions_mut());
    }

    /// The demands of a request; empty if no limit applies to it.
    pub(crate) fn demands(
        &self,
        head: &RequestHead<'_>,
    ) -> Result<LayerDemands<'_>, Box<RejectionCause>> {
        if self.unknown_limit.is_some()
            && let Some(error) = self.error()
        {
            return Err(RejectionCause::misconfigured(&error));
        }

        let mut demands = LayerDemands::new();
        if !self.is_exempt(head)? {
            for limit in &self.limits {
                demands.extend(limit.encoded_demand(head)?);
            }
        }
        Ok(demands)
    }

    /// The limit of a policy that has exactly one, if it applies to a request, whose key it writes.
    #[inline]
    pub(crate) fn only_limit(
        &self,
        head: &RequestHead<'_>,
        parts: &mut KeyParts,
    ) -> Result<Option<&LayerLimit>, Box<RejectionCause>> {
        let limit = &self.limits[0];
        let applies = !self.is_exempt(head)? && limit.write_key(head, parts)?;
        Ok(applies.then_some(limit))
    }

    /// A demand that was made earlier, with its limit.
    pub(crate) fn restore(&self, demand: OwnedDemand) -> Demand<'_, EncodedKey> {
        Demand {
            limit: &self.limits[demand.limit_index].rule,
            key: demand.key,
            cost: demand.cost,
            quota: demand.quota,
        }
    }

    /// Whether a request is on the allow list. It is an error if the request is on the deny list.
    #[inline]
    fn is_exempt(&self, head: &RequestHead<'_>) -> Result<bool, Box<RejectionCause>> {
        match &self.lists {
            Some(lists) => lists.exempt(head),
            None => Ok(false),
        }
    }
}

impl RequestLists {
    fn exempt(&self, head: &RequestHead<'_>) -> Result<bool, Box<RejectionCause>> {
        if self.deny.iter().any(|is_listed| is_listed(head)) {
            return Err(Box::new(RejectionCause::DenyListed));
        }
        Ok(self.skip.iter().any(|is_listed| is_listed(head)))
    }
}

/// Leaves out the functions, which have nothing to show.
impl fmt::Debug for LayerPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits: Vec<_> = self.limits.iter().map(|limit| limit.rule.name()).collect();
        f.debug_struct("LayerPolicy")
            .field("limits", &limits)
            .field("max_wait", &self.max_wait)
            .field("fields", &self.fields)
            .field("unknown_limit", &self.unknown_limit)
            .finish_non_exhaustive()
    }
}
