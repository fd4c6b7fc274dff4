//! The path that every front takes: attributes -> demands -> spend -> decision.
//!
//! Owns the active configuration and replaces it on reload. Knows nothing of HTTP or gRPC.

mod active;
mod permit;
mod store;

use std::borrow::Cow;
use std::sync::Arc;

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tollgate::store::Intent;
use tollgate::{Clock as _, Decision, EncodedKey, Quota, StoreError, SystemClock};
use tollgate_rules::{Attributes, Config, MissingKeyPolicy, SelectError, SelectedLimit};

pub(crate) use active::{ActiveConfig, OVERRIDES};
pub(crate) use permit::{PermitToken, PermitTokenError};
pub(crate) use store::{OpenStore, StoreOpenError};

use crate::metrics::Metrics;
use crate::traces;

/// Decides requests by the active configuration, and counts what it decides.
#[derive(Debug)]
pub(crate) struct Gate {
    active: ArcSwap<ActiveConfig>,
    metrics: Arc<Metrics>,
    clock: SystemClock,
}

/// What a request asks for in addition to its attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckOptions<'q> {
    /// Names of the limits to check; none checks every limit whose conditions match.
    pub(crate) limits: Option<&'q [Cow<'q, str>]>,
    /// Units the request costs; none uses the cost that each limit configures.
    pub(crate) cost: Option<u64>,
    /// Whether the request is charged or only peeks.
    pub(crate) intent: Intent,
}

/// One limit that a request has to pass, with the key and cost it is charged.
#[derive(Clone, Debug)]
pub(crate) struct GateDemand<'r> {
    /// The limit's name.
    pub(crate) limit: &'r str,
    /// The limit's index in the active configuration; overrides follow the configured limits.
    pub(crate) index: usize,
    pub(crate) key: EncodedKey,
    /// Units to charge or refund.
    pub(crate) cost: u64,
    /// A quota to use instead of the one the limit configures.
    pub(crate) quota: Option<Quota>,
}

pub(crate) type GateDemands<'r> = SmallVec<[GateDemand<'r>; 4]>;

/// A decision, with the permit to release when the work is done.
#[derive(Debug)]
pub(crate) struct GateDecision {
    pub(crate) decision: Decision,
    /// Present when the request was allowed and acquired a permit of a concurrency limit.
    pub(crate) permit: Option<PermitToken>,
}

/// Why a request could not be decided.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecideError {
    /// The request does not fit the limits: for example, an attribute is missing.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The limiter could not decide: for example, the store is unavailable.
    #[error(transparent)]
    Limiter(#[from] tollgate::Error),
}

impl DecideError {
    /// The store's error, if the store and not the request is the cause.
    pub(crate) const fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Limiter(tollgate::Error::Store(error)) => Some(error),
            Self::Limiter(_) | Self::Select(_) => None,
        }
    }
}

impl<'r> From<SelectedLimit<'r>> for GateDemand<'r> {
    fn from(selected: SelectedLimit<'r>) -> Self {
        let SelectedLimit {
            index,
            config: limit,
            key,
            cost,
            quota,
        } = selected;

        Self {
            limit: limit.rule.name(),
            index,
            key,
            cost,
            quota: quota.copied(),
        }
    }
}

impl Gate {
    /// Opens the store that the configuration describes. Must be called inside a Tokio runtime.
    pub(crate) fn open(config: Config, metrics: Arc<Metrics>) -> Result<Self, StoreOpenError> {
        let active = ActiveConfig::open(config, &metrics)?;
        Ok(Self {
            active: ArcSwap::from_pointee(active),
            metrics,
            clock: SystemClock::new(),
        })
    }

    /// A gate that decides in memory, by a clock that a test controls.
    #[cfg(test)]
    pub(crate) fn with_clock(clock: &tollgate::ManualClock, config: Config) -> Self {
        let metrics = Arc::new(Metrics::new());
        let active = ActiveConfig::with_clock(clock, config, &metrics);
        Self {
            active: ArcSwap::from_pointee(active),
            metrics,
            clock: SystemClock::new(),
        }
    }

    /// The active configuration.
    pub(crate) fn active(&self) -> Arc<ActiveConfig> {
        self.active.load_full()
    }

    /// Activates another configuration. Limits that are in both keep their counts. Requests in
    /// flight finish with the old configuration.
    pub(crate) fn replace(&self, config: Config) -> Result<(), StoreOpenError> {
        let next = self.active.load().reconfigured(config, &self.metrics)?;
        self.active.store(Arc::new(next));
        Ok(())
    }

    pub(crate) const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The time since the UNIX epoch.
    pub(crate) fn now(&self) -> tollgate::Micros {
        self.clock.now()
    }

    /// Selects the limits that apply to the request and decides by them.
    pub(crate) async fn decide(
        &self,
        active: &ActiveConfig,
        attributes: &(impl Attributes + Sync),
        options: CheckOptions<'_>,
    ) -> Result<GateDecision, DecideError> {
        let demands = active.select(attributes, options)?;
        self.spend(active, &demands, options.intent).await
    }

    /// Decides by these demands: all of them are charged, or none.
    pub(crate) async fn spend(
        &self,
        active: &ActiveConfig,
        demands: &[GateDemand<'_>],
        intent: Intent,
    ) -> Result<GateDecision, DecideError> {
        let started_at = self.clock.now();
        let decision = active.check(demands, intent).await?;

        traces::record_decision(&tracing::Span::current(), &decision);
        if intent == Intent::Spend {
            active.count(demands, &decision);
            self.metrics
                .observe_decision(self.clock.now().since(started_at));
        }

        let permit = decision
            .permit_id()
            .map(|permit_id| PermitToken::new(permit_id, active, demands));
        Ok(GateDecision { decision, permit })
    }

    /// Refunds what a check charged. Concurrency limits are left out: their permits are released
    /// with the permit token.
    pub(crate) async fn refund(
        &self,
        active: &ActiveConfig,
        attributes: &(impl Attributes + Sync),
        options: CheckOptions<'_>,
    ) -> Result<(), DecideError> {
        let demands = active.select(attributes, options)?;
        active.refund(&demands).await
    }

    /// Releases a permit. Returns false if it was already released or had timed out.
    pub(crate) async fn release(&self, permit: &PermitToken) -> Result<bool, DecideError> {
        let active = self.active();

        let mut was_held = false;
        for counter in &permit.counters {
            was_held |= active
                .limiter
                .release(&counter.limit, &counter.key, permit.id)
                .await?;
        }
        Ok(was_held)
    }
}

impl ActiveConfig {
    /// Checks the demands together. A single demand, the usual case, is checked without copying
    /// its key.
    async fn check(
        &self,
        demands: &[GateDemand<'_>],
        intent: Intent,
    ) -> Result<Decision, tollgate::Error> {
        if let [demand] = demands
            && demand.quota.is_none()
            && intent == Intent::Spend
        {
            return self
                .limiter
                .check(demand.limit, &demand.key)
                .cost(demand.cost)
                .await;
        }

        let mut request = self.limiter.request(intent);
        for demand in demands {
            request = request
                .and(demand.limit, &demand.key)
                .limit_cost(demand.cost);
            if let Some(quota) = demand.quota {
                request = request.quota(quota);
            }
        }
        request.await
    }

    /// Selects the limits that apply to a request.
    pub(crate) fn select(
        &self,
        attributes: &impl Attributes,
        options: CheckOptions<'_>,
    ) -> Result<GateDemands<'_>, SelectError> {
        let CheckOptions { limits, cost, .. } = options;

        let selection = match limits {
            Some(names) => self.selector.select_named(names, attributes, cost)?,
            None => self
                .selector
                .select(attributes, cost, MissingKeyPolicy::Error)?,
        };

        Ok(selection.into_iter().map(GateDemand::from).collect())
    }

    /// Refunds these demands, except those on concurrency limits.
    pub(crate) async fn refund(&self, demands: &[GateDemand<'_>]) -> Result<(), DecideError> {
        let mut refund = self.limiter.refund_request();
        for demand in demands
            .iter()
            .filter(|demand| !self.is_concurrency(demand.limit))
        {
            refund = refund
                .and(demand.limit, &demand.key)
                .limit_cost(demand.cost);
            if let Some(quota) = demand.quota {
                refund = refund.quota(quota);
            }
        }

        Ok(refund.await?)
    }
}
