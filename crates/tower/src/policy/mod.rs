//! The policy of a layer: which limits it applies to a request, under which keys and at which cost,
//! and whether it admits the request.
//!
//! This module covers the steps from the request to the decision. It does not handle responses.

mod admit;
mod limit;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Extensions;
use smallvec::SmallVec;
use tollgate::{Error, Limiter};
use tollgate_http::EnabledFields;

pub(crate) use self::admit::{AdmissionResult, SyncAdmission};
pub(crate) use self::limit::{
    CostRule, LayerDemand, LayerLimit, LimitKind, RequestFn, SettlementRule,
};
use crate::by::KeyExtractor;
use crate::observe::{DecisionHooks, LayerMonitor, Warning};
use crate::rejection::{RejectionCause, RejectionHandler};
use crate::request_head::RequestHead;

/// Everything a [`RateLimitLayer`](crate::RateLimitLayer) is configured with.
#[derive(Clone)]
pub(crate) struct LayerPolicy {
    pub(crate) limiter: Limiter,
    pub(crate) limits: SmallVec<[LayerLimit; 2]>,
    /// The allow list: requests that pass without being counted.
    pub(crate) skip: Vec<RequestFn<bool>>,
    /// The deny list: requests that are rejected without being counted.
    pub(crate) deny: Vec<RequestFn<bool>>,
    pub(crate) lookups: Vec<LookupFn>,
    /// How long a request may wait until the limits admit it; `None` if requests wait in queue
    /// limits only.
    pub(crate) max_wait: Option<Duration>,
    pub(crate) fields: EnabledFields,
    /// `None` for the default response.
    pub(crate) respond: Option<RejectionHandler>,
    pub(crate) hooks: DecisionHooks,
    pub(crate) monitor: Arc<LayerMonitor>,
    /// The first mistake in the configuration. As long as it is set, every request is rejected with
    /// status 500, so that none passes unlimited by mistake.
    pub(crate) setup_error: Option<SetupError>,
}

/// A limit that the limiter does not have, or that is invalid.
#[derive(Clone, Debug)]
pub(crate) struct SetupError {
    limit: Arc<str>,
    message: Arc<str>,
}

/// Looks up something about a request asynchronously, such as its user. Its result inserts the
/// value into the request's extensions.
pub(crate) type LookupFn = Arc<
    dyn Fn(&RequestHead<'_>) -> Pin<Box<dyn Future<Output = ExtensionInsert> + Send>> + Send + Sync,
>;
/// Inserts the result of a lookup into the request's extensions.
pub(crate) type ExtensionInsert = Box<dyn FnOnce(&mut Extensions) + Send>;

/// The demands of one request, one per limit that applies to it.
pub(crate) type LayerDemands = SmallVec<[LayerDemand; 1]>;

impl LayerPolicy {
    pub(crate) fn new(limiter: &Limiter) -> Self {
        Self {
            limiter: limiter.clone(),
            limits: SmallVec::new(),

            skip: Vec::new(),
            deny: Vec::new(),
            lookups: Vec::new(),
            max_wait: None,

            fields: EnabledFields::default(),
            respond: None,
            hooks: DecisionHooks::default(),
            monitor: Arc::new(LayerMonitor::default()),
            setup_error: None,
        }
    }

    /// Adds a limit, or records the setup error if the limiter cannot apply it.
    pub(crate) fn add_limit(&mut self, name: &str, key: impl KeyExtractor) {
        let limit = match LayerLimit::new(&self.limiter, name, key) {
            Ok(limit) => limit,
            Err(error) => {
                self.setup_error.get_or_insert(SetupError {
                    limit: name.into(),
                    message: error.to_string().into(),
                });
                return;
            }
        };

        if self.limits.iter().any(|other| other.name == limit.name) {
            Warning::LimitAppliedTwice.log(&limit.name);
        }
        self.limits.push(limit);
    }

    /// The setup error as the limiter's own error, if there is one.
    pub(crate) fn error(&self) -> Option<Error> {
        self.setup_error
            .as_ref()
            .and_then(|error| self.limiter.rule(&error.limit).err())
    }

    /// The demands of a request; empty if no limit applies to it.
    pub(crate) fn demands(
        &self,
        head: &RequestHead<'_>,
    ) -> Result<LayerDemands, Box<RejectionCause>> {
        let mut demands = LayerDemands::new();
        if self.is_exempt(head)? {
            return Ok(demands);
        }

        for (index, limit) in self.limits.iter().enumerate() {
            demands.extend(limit.demand(index, head)?);
        }
        Ok(demands)
    }

    /// The demand of a request under a policy with exactly one limit; `None` if the limit does not
    /// apply to it.
    #[inline]
    fn only_demand(
        &self,
        head: &RequestHead<'_>,
    ) -> Result<Option<LayerDemand>, Box<RejectionCause>> {
        if self.is_exempt(head)? {
            Ok(None)
        } else {
            self.limits[0].demand(0, head)
        }
    }

    /// Whether a request is on the allow list. It is an error if the request is on the deny list,
    /// or if the policy has a setup error.
    #[inline]
    fn is_exempt(&self, head: &RequestHead<'_>) -> Result<bool, Box<RejectionCause>> {
        if let Some(error) = &self.setup_error {
            return Err(Box::new(RejectionCause::Misconfigured {
                reason: error.message.to_string(),
            }));
        }

        if self.deny.iter().any(|is_listed| is_listed(head)) {
            return Err(Box::new(RejectionCause::DenyListed));
        }
        Ok(self.skip.iter().any(|is_listed| is_listed(head)))
    }
}

/// Leaves out the functions, which have nothing to show.
impl fmt::Debug for LayerPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerPolicy")
            .field("limits", &self.limits)
            .field("max_wait", &self.max_wait)
            .field("fields", &self.fields)
            .field("setup_error", &self.setup_error)
            .finish_non_exhaustive()
    }
}
