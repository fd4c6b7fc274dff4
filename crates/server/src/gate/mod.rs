//! The one way of every front: attributes -> checks -> spend -> decision.
//!
//! Owns the configuration in force and how it is replaced. Knows nothing of HTTP or gRPC.

mod lease;
mod running;
mod store;

use std::borrow::Cow;
use std::sync::Arc;

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tollgate::store::Intent;
use tollgate::{Clock as _, Decision, EncodedKey, Quota, StoreError, SystemClock};
use tollgate_rules::{Attributes, Config, MissingKeyPolicy, SelectError, SelectedLimit};

pub(crate) use lease::{LeaseWord, NotALease};
pub(crate) use running::{OVERRIDES, Running};
pub(crate) use store::{OpenStore, StoreFault};

use crate::metrics::Meters;
use crate::traces;

/// Decides, by the configuration in force.
#[derive(Debug)]
pub(crate) struct Gate {
    running: ArcSwap<Running>,
    meters: Arc<Meters>,
    clock: SystemClock,
}

/// What a request wants to know, beside its attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'q> {
    /// The limits to ask, if not every one whose conditions hold.
    pub(crate) limits: Option<&'q [Cow<'q, str>]>,
    /// What the request costs, if it says so.
    pub(crate) cost: Option<u64>,
    /// Whether it is charged.
    pub(crate) intent: Intent,
}

/// One limit to spend from.
#[derive(Clone, Debug)]
pub(crate) struct Spend<'r> {
    pub(crate) limit: &'r str,
    /// Its place among the limits in force, overrides after those of the file.
    pub(crate) index: usize,
    pub(crate) key: EncodedKey,
    pub(crate) cost: u64,
    pub(crate) quota: Option<Quota>,
}

pub(crate) type Spends<'r> = SmallVec<[Spend<'r>; 4]>;

/// A decision, and what to release when the work is done.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    pub(crate) lease: Option<LeaseWord>,
}

/// Why there is no decision.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undecided {
    /// The request does not fit the limits.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The limiter cannot take the question.
    #[error(transparent)]
    Ask(#[from] tollgate::Error),
}

impl Undecided {
    /// True when the store is the reason, and not the request.
    pub(crate) const fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Ask(tollgate::Error::Store(error)) => Some(error),
            Self::Ask(_) | Self::Select(_) => None,
        }
    }
}

impl<'r> From<SelectedLimit<'r>> for Spend<'r> {
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
    pub(crate) fn open(config: Config, meters: Arc<Meters>) -> Result<Self, StoreFault> {
        let running = Running::open(config, &meters)?;
        Ok(Self {
            running: ArcSwap::from_pointee(running),
            meters,
            clock: SystemClock::new(),
        })
    }

    /// A gate that decides in memory, by another clock than the machine's.
    #[cfg(test)]
    pub(crate) fn at(clock: &tollgate::ManualClock, config: Config) -> Self {
        let meters = Arc::new(Meters::new());
        let running = Running::at(clock, config, &meters);
        Self {
            running: ArcSwap::from_pointee(running),
            meters,
            clock: SystemClock::new(),
        }
    }

    /// What is in force.
    pub(crate) fn running(&self) -> Arc<Running> {
        self.running.load_full()
    }

    /// Puts another configuration in force. Limits that stay keep their counts. Requests under way
    /// finish by the old one.
    pub(crate) fn replace(&self, config: Config) -> Result<(), StoreFault> {
        let next = self.running.load().followed_by(config, &self.meters)?;
        self.running.store(Arc::new(next));
        Ok(())
    }

    pub(crate) const fn meters(&self) -> &Arc<Meters> {
        &self.meters
    }

    /// The time since the UNIX epoch.
    pub(crate) fn now(&self) -> tollgate::Micros {
        self.clock.now()
    }

    /// The decision about a request.
    pub(crate) async fn decide(
        &self,
        running: &Running,
        attributes: &(impl Attributes + Sync),
        question: Question<'_>,
    ) -> Result<Decided, Undecided> {
        let spends = running.select(attributes, question)?;
        self.spend(running, &spends, question.intent).await
    }

    /// The decision about these limits.
    pub(crate) async fn spend(
        &self,
        running: &Running,
        spends: &[Spend<'_>],
        intent: Intent,
    ) -> Result<Decided, Undecided> {
        let began = self.clock.now();
        let decision = running.ask(spends, intent).await?;
        traces::decided(&tracing::Span::current(), &decision);
        if intent == Intent::Spend {
            running.count(spends, &decision);
            self.meters.decided(self.clock.now().since(began));
        }
        let lease = decision
            .permit_id()
            .map(|lease| LeaseWord::new(lease, running, spends));
        Ok(Decided { decision, lease })
    }

    /// Gives back what a check took. Places in flight are given back by their lease instead.
    pub(crate) async fn refund(
        &self,
        running: &Running,
        attributes: &(impl Attributes + Sync),
        question: Question<'_>,
    ) -> Result<(), Undecided> {
        let spends = running.select(attributes, question)?;
        running.give_back(&spends).await
    }

    /// Ends a lease; false when it had already ended.
    pub(crate) async fn release(&self, word: &LeaseWord) -> Result<bool, Undecided> {
        let running = self.running();
        let mut was_held = false;
        for place in &word.places {
            was_held |= running
                .limiter
                .release(&place.limit, &place.key, word.id)
                .await?;
        }
        Ok(was_held)
    }
}

impl Running {
    /// Puts a question to the limiter. A single limit, the usual case, is asked about without
    /// copying its key.
    async fn ask(&self, spends: &[Spend<'_>], intent: Intent) -> Result<Decision, tollgate::Error> {
        if let (
            [
                Spend {
                    limit,
                    key,
                    cost,
                    quota: None,
                    ..
                },
            ],
            Intent::Spend,
        ) = (spends, intent)
        {
            return self.limiter.check(limit, key).cost(*cost).await;
        }
        let mut ask = self.limiter.request(intent);
        for spend in spends {
            ask = ask.and(spend.limit, &spend.key).limit_cost(spend.cost);
            if let Some(quota) = spend.quota {
                ask = ask.quota(quota);
            }
        }
        ask.await
    }

    /// What a request must pass.
    pub(crate) fn select(
        &self,
        attributes: &impl Attributes,
        question: Question<'_>,
    ) -> Result<Spends<'_>, SelectError> {
        let Question { limits, cost, .. } = question;
        let selection = match limits {
            Some(names) => self.selector.select_named(names, attributes, cost)?,
            None => self
                .selector
                .select(attributes, cost, MissingKeyPolicy::Refuse)?,
        };
        Ok(selection.into_iter().map(Spend::from).collect())
    }

    /// Gives back what these limits were charged.
    pub(crate) async fn give_back(&self, spends: &[Spend<'_>]) -> Result<(), Undecided> {
        let mut refund = self.limiter.refund_request();
        for spend in spends
            .iter()
            .filter(|spend| !self.is_concurrency(spend.limit))
        {
            refund = refund.and(spend.limit, &spend.key).limit_cost(spend.cost);
            if let Some(quota) = spend.quota {
                refund = refund.quota(quota);
            }
        }
        Ok(refund.await?)
    }
}
