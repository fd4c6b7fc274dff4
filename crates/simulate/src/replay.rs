//! Replays requests through one configuration.
//!
//! The limits of a request are selected and decided by the same code as in the service. Only the
//! time comes from the log. The standing lists of the file hold, too; actions of operators are not
//! part of it.

use std::ops::Range;

use tollgate::store::{DEMANDS_MAX, Intent};
use tollgate::{
    Concurrency, Demand, EncodedKey, ManualClock, MemoryStore, Micros, Outcome, PermitId, Quota,
    Store as _,
};
use tollgate_rules::config::StoreConfig;
use tollgate_rules::{
    Attributes, Config, LimitConfig, MissingKeyPolicy, SelectError, Selector, StandingEffect,
    StandingIndex,
};

use crate::batch::ReplayRequest;

/// The maximum number of counters that take the place of those of a shared store.
pub(crate) const SHARED_KEYS_MAX: usize = 16_000_000;

/// Keys are truncated to this number of characters in reports.
const KEY_CHARS_MAX: usize = 160;

/// The shortest time for which a permit can be held.
const PERMIT_MIN: Micros = Micros::from_millis(1);

/// The replay of one configuration.
#[derive(Debug)]
pub struct ConfigReplay {
    selector: Selector,
    standing: StandingIndex,
    store: MemoryStore,
    /// The clock of the store, moved to the time of each request.
    clock: ManualClock,
}

/// The decision of a configuration on one request.
#[derive(Clone, Copy, Debug)]
pub struct ReplayDecision<'a> {
    /// The limits that were asked, in the order of the configuration.
    pub limits: &'a [Demand<'a, EncodedKey>],
    /// Their outcomes, in the same order.
    pub outcomes: &'a [Outcome],
    /// Indexes of limits that match but were skipped, because the log lacks their key.
    pub unkeyed: &'a [usize],
    /// Indexes of concurrency limits that match but were skipped, because the log does not say how
    /// long the request took.
    pub untimed: &'a [usize],
    /// Demands that a standing list decided in place of the limit. If one of them is blocked, no
    /// limit was asked.
    pub standing: &'a [StandingDemand<'a>],
    /// Whether the request is allowed: no list and no limit denies it, except shadow limits.
    pub is_allowed: bool,
}

/// A demand that a standing list of the file decided.
#[derive(Clone, Debug)]
pub struct StandingDemand<'a> {
    /// The demand that the limit was not asked about.
    pub demand: Demand<'a, EncodedKey>,
    /// What the list does.
    pub effect: StandingEffect,
}

/// Why a request got no decision. The service would respond with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// An attribute of the request is missing or invalid.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// More limits match than a request may have.
    #[error(transparent)]
    TooMany(tollgate::Error),
}

/// The limits of a batch of requests, concatenated.
#[derive(Default)]
struct BatchSelection<'r> {
    limits: Vec<Demand<'r, EncodedKey>>,
    unkeyed: Vec<usize>,
    untimed: Vec<usize>,
    standing: Vec<StandingDemand<'r>>,
    /// For each request, its ranges in the four lists.
    requests: Vec<Result<RequestSelection, ReplayError>>,
}

/// The ranges of one request in a [`BatchSelection`].
#[derive(Clone, Debug)]
struct RequestSelection {
    limits: Range<usize>,
    unkeyed: Range<usize>,
    untimed: Range<usize>,
    standing: Range<usize>,
}

impl ConfigReplay {
    /// Replays all limits of a configuration. Concurrency limits apply to requests with a duration.
    pub fn new(config: &Config) -> Self {
        Self::with_limits(config, keys_max(config), |_| true)
    }

    /// Like [`new`](Self::new), but `change` may modify each limit, or return false to leave it
    /// out, and at most `keys_max` counters are kept.
    pub(crate) fn with_limits(
        config: &Config,
        keys_max: usize,
        change: impl FnMut(&mut LimitConfig) -> bool,
    ) -> Self {
        let mut config = config.clone();
        config.limits.retain_mut(change);
        let (selector, clock) = (Selector::new(&config), ManualClock::default());
        let store = MemoryStore::builder().keys_max(keys_max);
        Self {
            standing: StandingIndex::new(&selector),
            selector,
            store: store.clock(clock.clone()).build(),
            clock,
        }
    }

    /// Decides a batch of requests in order and passes each decision to `on_decision`. The times
    /// must never go back.
    pub fn decide<R: Attributes>(
        &mut self,
        requests: &[ReplayRequest<R>],
        mut on_decision: impl FnMut(&ReplayRequest<R>, Result<ReplayDecision<'_>, &ReplayError>),
    ) {
        let Self {
            selector,
            standing,
            store,
            clock,
        } = self;

        let batch = BatchSelection::new(selector, standing, requests);
        let demands: Vec<Demand<'_>> = batch.limits.iter().map(Demand::as_demand).collect();

        let mut outcomes = Vec::new();
        for (request, selection) in requests.iter().zip(&batch.requests) {
            let selection = match selection {
                Ok(selection) => selection.clone(),
                Err(error) => {
                    on_decision(request, Err(error));
                    continue;
                }
            };

            let limits = selection.limits;
            let demands = &demands[limits.clone()];
            clock.set(request.at);
            outcomes.clear();
            spend(store, demands, &mut outcomes);

            let standing = &batch.standing[selection.standing];
            let decision = ReplayDecision {
                limits: &batch.limits[limits],
                outcomes: &outcomes,
                unkeyed: &batch.unkeyed[selection.unkeyed],
                untimed: &batch.untimed[selection.untimed],
                standing,
                is_allowed: !standing.iter().any(StandingDemand::is_blocked)
                    && is_allowed(demands, &outcomes),
            };
            on_decision(request, Ok(decision));
        }
    }

    /// The replayed limits, in the order of the configuration.
    pub fn limits(&self) -> impl ExactSizeIterator<Item = &LimitConfig> {
        self.selector.limits().iter()
    }

    /// Whether the table of counters is full, so that some counters were evicted early.
    pub fn is_full(&self) -> bool {
        self.store.keys() >= self.store.keys_max()
    }

    /// A key of the limit with this index, as text. Hashed parts stay hashed.
    pub(crate) fn display_key(&self, index: usize, key: &EncodedKey) -> String {
        let parts = self.selector.display_key(index, key).unwrap_or_default();
        if parts.is_empty() {
            return "everyone".to_owned();
        }

        let parts = parts.iter();
        let parts = parts.map(|part| format!("{}={}", part.attribute, part.value));
        let shown = parts.collect::<Vec<_>>().join(", ");
        shown.chars().take(KEY_CHARS_MAX).collect()
    }
}

impl<'r> BatchSelection<'r> {
    fn new<R: Attributes>(
        selector: &'r Selector,
        standing: &StandingIndex,
        requests: &[ReplayRequest<R>],
    ) -> Self {
        let standing = Some(standing).filter(|standing| !standing.is_empty());
        let mut batch = Self {
            limits: Vec::with_capacity(2 * requests.len()),
            requests: Vec::with_capacity(requests.len()),
            ..Self::default()
        };
        for request in requests {
            let selection = batch.add(selector, standing, request);
            batch.requests.push(selection);
        }
        batch
    }

    fn add<R: Attributes>(
        &mut self,
        selector: &'r Selector,
        lists: Option<&StandingIndex>,
        request: &ReplayRequest<R>,
    ) -> Result<RequestSelection, ReplayError> {
        let Self {
            limits,
            unkeyed,
            untimed,
            standing,
            ..
        } = self;
        let (first_limit, first_unkeyed) = (limits.len(), unkeyed.len());
        let (first_untimed, first_standing) = (untimed.len(), standing.len());

        let on_missing = MissingKeyPolicy::Skip;
        selector.for_each_selected(&request.attributes, None, on_missing, |index, selected| {
            if selected.is_empty() {
                unkeyed.push(index);
            }
            for demand in selected {
                if let Some(effect) = lists.and_then(|lists| lists.effect(&demand)) {
                    standing.push(StandingDemand { demand, effect });
                    continue;
                }
                match held_until_end(demand, request.duration) {
                    Some(demand) => limits.push(demand),
                    None => untimed.push(index),
                }
            }
        })?;
        if limits.len() + standing.len() - first_limit - first_standing > DEMANDS_MAX {
            return Err(ReplayError::TooMany(tollgate::Error::TooManyLimits));
        }
        // A blocked request is charged to no limit.
        if standing[first_standing..]
            .iter()
            .any(StandingDemand::is_blocked)
        {
            limits.truncate(first_limit);
        }

        Ok(RequestSelection {
            limits: first_limit..limits.len(),
            unkeyed: first_unkeyed..unkeyed.len(),
            untimed: first_untimed..untimed.len(),
            standing: first_standing..standing.len(),
        })
    }
}

/// The maximum number of counters of a configuration.
pub(crate) const fn keys_max(config: &Config) -> usize {
    match &config.store {
        StoreConfig::Memory { keys_max, .. } => *keys_max,
        StoreConfig::Redis(_) => SHARED_KEYS_MAX,
    }
}

/// The demand with a permit that times out when the request ends, or earlier if the limit says so.
/// `None` if it needs a permit and the request has no duration.
fn held_until_end(
    demand: Demand<'_, EncodedKey>,
    duration: Option<Micros>,
) -> Option<Demand<'_, EncodedKey>> {
    let Quota::Concurrency(quota) = demand.quota() else {
        return Some(demand);
    };

    let timeout = quota.permit_timeout();
    let held = duration?.clamp(PERMIT_MIN.min(timeout), timeout);
    let quota = Concurrency::new(quota.limit(), held.into()).ok();
    debug_assert!(quota.is_some(), "the limit and its timeout are valid");
    Some(demand.with_quota(quota.map(Quota::from)))
}

impl StandingDemand<'_> {
    /// Whether the list denies the request. It does even on a shadow limit.
    pub(crate) fn is_blocked(&self) -> bool {
        self.effect == StandingEffect::Block
    }
}

/// Spends all demands or none of them, and appends their outcomes. Their permits end with their
/// timeouts.
fn spend(store: &MemoryStore, demands: &[Demand<'_>], outcomes: &mut Vec<Outcome>) {
    let (intent, permit_id) = (Intent::Spend, PermitId::NONE);
    if let [demand] = demands {
        let spent = store.try_spend(demand, intent, permit_id);
        outcomes.extend(spent.map(|(outcome, _)| outcome));
    } else if let Some(reply) = store.try_spend_all(demands, intent, permit_id) {
        outcomes.extend(reply.outcomes().iter().map(|(outcome, _)| *outcome));
    }
}

/// Whether a request is allowed: no limit denies it, except shadow limits.
#[inline]
fn is_allowed(demands: &[Demand<'_>], outcomes: &[Outcome]) -> bool {
    demands
        .iter()
        .zip(outcomes)
        .all(|(demand, outcome)| demand.limit.is_shadow() || outcome.verdict.is_allowed())
}
