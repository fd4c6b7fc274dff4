//! The path that every front takes: attributes -> demands -> spend -> decision.
//!
//! Owns the active configuration and replaces it on reload. Knows nothing of HTTP or gRPC.

mod active;
mod operations;
mod permit;
mod store;

use std::borrow::Cow;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate::store::Intent;
use tollgate::{Clock as _, Decision, Demand, EncodedKey, StoreError, SystemClock};
use tollgate_rules::{Attributes, Config, SelectError};

pub(crate) use active::{ActiveConfig, OVERRIDES};
pub(crate) use operations::StoreState;
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
        demands: &[Demand<'_, EncodedKey>],
        intent: Intent,
    ) -> Result<GateDecision, DecideError> {
        let started_at = self.clock.now();
        let decision = active.limiter.request(demands, intent).await?;

        traces::record_decision(&tracing::Span::current(), &decision);
        if intent == Intent::Spend {
            active.count(demands, &decision);
            self.metrics
                .observe_decision(self.clock.now().since(started_at));
        }

        let permit = decision
            .permit_id()
            .map(|permit_id| PermitToken::new(permit_id, demands));
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
                .handle(&counter.limit)?
                .release(&counter.key, permit.id)
                .await?;
        }
        Ok(was_held)
    }
}
