//! The one way of every front: attributes -> checks -> spend -> decision.
//!
//! Owns the configuration in force and how it is replaced. Knows nothing of HTTP or gRPC.

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

/// Decides, by the configuration in force.
#[derive(Debug)]
pub(crate) struct Gate {
    active: ArcSwap<ActiveConfig>,
    metrics: Arc<Metrics>,
    clock: SystemClock,
}

/// What a request wants to know, beside its attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckOptions<'q> {
    /// The limits to ask, if not every one whose conditions hold.
    pub(crate) limits: Option<&'q [Cow<'q, str>]>,
    /// What the request costs, if it says so.
    pub(crate) cost: Option<u64>,
    /// Whether it is charged.
    pub(crate) intent: Intent,
}

/// One limit to spend from.
#[derive(Clone, Debug)]
pub(crate) struct GateDemand<'r> {
    pub(crate) limit: &'r str,
    /// Its place among the limits in force, overrides after those of the file.
    pub(crate) index: usize,
    pub(crate) key: EncodedKey,
    pub(crate) cost: u64,
    pub(crate) quota: Option<Quota>,
}

pub(crate) type GateDemands<'r> = SmallVec<[GateDemand<'r>; 4]>;

/// A decision, and what to release when the work is done.
#[derive(Debug)]
pub(crate) struct GateDecision {
    pub(crate) decision: Decision,
    pub(crate) permit: Option<PermitToken>,
}

/// Why there is no decision.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecideError {
    /// The request does not fit the limits.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The limiter cannot take the question.
    #[error(transparent)]
    Limiter(#[from] tollgate::Error),
}

impl DecideError {
    /// True when the store is the reason, and not the request.
    pub(crate) const fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Limiter(tollgate::Error::Store(error)) => Some(error),
            Self::Limiter(_) | Self::Select(_) => None,
        }
    }
}

impl<'r> From<SelectedLimit<'r>> for GateDemand<'r> {
    fn from(chosen: SelectedLimit<'r>) -> Self {
        let SelectedLimit {
            index,
            rule,
            key,
            cost,
            quota,
        } = chosen;
        Self {
            limit: rule.limit.name(),
            index,
            key,
            cost,
            quota: quota.copied(),
        }
    }
}

impl Gate {
    /// A gate with this configuration, on a store of its own. Must be called inside a Tokio
    /// runtime.
    pub(crate) fn open(config: Config, metrics: Arc<Metrics>) -> Result<Self, StoreOpenError> {
        let active = ActiveConfig::open(config, &metrics)?;
        Ok(Self {
            active: ArcSwap::from_pointee(active),
            metrics,
            clock: SystemClock::new(),
        })
    }

    /// A gate that decides in memory, by another clock than the machine's.
    #[cfg(test)]
    pub(crate) fn at(clock: &tollgate::ManualClock, config: Config) -> Self {
        let metrics = Arc::new(Metrics::new());
        let active = ActiveConfig::at(clock, config, &metrics);
        Self {
            active: ArcSwap::from_pointee(active),
            metrics,
            clock: SystemClock::new(),
        }
    }

    /// What is in force.
    pub(crate) fn active(&self) -> Arc<ActiveConfig> {
        self.active.load_full()
    }

    /// Puts another configuration in force. Limits that stay keep their counts. Requests under way
    /// finish by the old one.
    pub(crate) fn replace(&self, config: Config) -> Result<(), StoreOpenError> {
        let next = self.active.load().followed_by(config, &self.metrics)?;
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

    /// The decision about a request.
    pub(crate) async fn decide(
        &self,
        active: &ActiveConfig,
        attributes: &(impl Attributes + Sync),
        question: CheckOptions<'_>,
    ) -> Result<GateDecision, DecideError> {
        let demands = active.select(attributes, question)?;
        self.spend(active, &demands, question.intent).await
    }

    /// The decision about these limits.
    pub(crate) async fn spend(
        &self,
        active: &ActiveConfig,
        demands: &[GateDemand<'_>],
        intent: Intent,
    ) -> Result<GateDecision, DecideError> {
        let began = self.clock.now();
        let decision = active.ask(demands, intent).await?;
        traces::decided(&tracing::Span::current(), &decision);
        if intent == Intent::Spend {
            active.count(demands, &decision);
            self.metrics.decided(self.clock.now().since(began));
        }
        let permit = decision
            .permit_id()
            .map(|permit| PermitToken::new(permit, active, demands));
        Ok(GateDecision { decision, permit })
    }

    /// Gives back what a check took. Places in flight are given back by their permit instead.
    pub(crate) async fn refund(
        &self,
        active: &ActiveConfig,
        attributes: &(impl Attributes + Sync),
        question: CheckOptions<'_>,
    ) -> Result<(), DecideError> {
        let demands = active.select(attributes, question)?;
        active.give_back(&demands).await
    }

    /// Ends a permit; false when it had already ended.
    pub(crate) async fn release(&self, word: &PermitToken) -> Result<bool, DecideError> {
        let active = self.active();
        let mut was_held = false;
        for place in &word.places {
            was_held |= active
                .limiter
                .release(&place.limit, &place.key, word.id)
                .await?;
        }
        Ok(was_held)
    }
}

impl ActiveConfig {
    /// Puts a question to the limiter. A single limit, the usual case, is asked about without
    /// copying its key.
    async fn ask(
        &self,
        demands: &[GateDemand<'_>],
        intent: Intent,
    ) -> Result<Decision, tollgate::Error> {
        if let (
            [
                GateDemand {
                    limit,
                    key,
                    cost,
                    quota: None,
                    ..
                },
            ],
            Intent::Spend,
        ) = (demands, intent)
        {
            return self.limiter.check(limit, key).cost(*cost).await;
        }
        let mut ask = self.limiter.request(intent);
        for demand in demands {
            ask = ask.and(demand.limit, &demand.key).limit_cost(demand.cost);
            if let Some(quota) = demand.quota {
                ask = ask.quota(quota);
            }
        }
        ask.await
    }

    /// What a request must pass.
    pub(crate) fn select(
        &self,
        attributes: &impl Attributes,
        question: CheckOptions<'_>,
    ) -> Result<GateDemands<'_>, SelectError> {
        let CheckOptions { limits, cost, .. } = question;
        let selection = match limits {
            Some(names) => self.selector.select_named(names, attributes, cost)?,
            None => self
                .selector
                .select(attributes, cost, MissingKeyPolicy::Refuse)?,
        };
        Ok(selection.into_iter().map(GateDemand::from).collect())
    }

    /// Gives back what these limits were charged.
    pub(crate) async fn give_back(&self, demands: &[GateDemand<'_>]) -> Result<(), DecideError> {
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
