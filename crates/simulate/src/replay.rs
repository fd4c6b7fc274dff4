//! Replays requests through one configuration.
//!
//! The limits of a request are selected and decided by the same code as in the service. Only the
//! time comes from the log.

use std::ops::Range;

use tollgate::memory::Ledger;
use tollgate::store::DEMANDS_MAX;
use tollgate::{Demand, EncodedKey, Outcome, Quota};
use tollgate_rules::config::StoreConfig;
use tollgate_rules::{Attributes, Config, LimitConfig, MissingKeyPolicy, SelectError, Selector};

use crate::batch::ReplayRequest;

/// The maximum number of counters that stand in for those of a shared store.
const SHARED_KEYS_MAX: usize = 16_000_000;

/// Keys are truncated to this number of characters in reports.
const KEY_CHARS_MAX: usize = 160;

/// The replay of one configuration.
#[derive(Debug)]
pub struct ConfigReplay {
    selector: Selector,
    ledger: Ledger,
    left_out: Vec<String>,
}

/// The decision of a configuration on one request.
#[derive(Clone, Copy, Debug)]
pub struct ReplayDecision<'a> {
    /// The limits that applied, in the order of the configuration.
    pub limits: &'a [Demand<'a, EncodedKey>],
    /// Their outcomes, in the same order.
    pub outcomes: &'a [Outcome],
    /// Indexes of limits that match but were skipped, because the log lacks their key.
    pub unkeyed: &'a [usize],
    /// Whether the request is allowed: no limit denies it, except shadow limits.
    pub is_allowed: bool,
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
    /// For each request, its ranges in the two lists.
    requests: Vec<Result<RequestSelection, ReplayError>>,
}

/// The ranges of one request in a [`BatchSelection`].
#[derive(Clone, Debug)]
struct RequestSelection {
    limits: Range<usize>,
    unkeyed: Range<usize>,
}

impl ConfigReplay {
    /// Replays all limits of a configuration, except concurrency limits: a log does not say when
    /// requests ended.
    pub fn new(config: &Config) -> Self {
        Self::with_limits(config, |_| true)
    }

    /// Like [`new`](Self::new), but `change` may modify each limit, or return false to leave it
    /// out.
    pub(crate) fn with_limits(
        config: &Config,
        mut change: impl FnMut(&mut LimitConfig) -> bool,
    ) -> Self {
        let mut config = config.clone();
        let mut left_out = Vec::new();
        config.limits.retain_mut(|limit| {
            let is_kept = !is_concurrency(limit) && change(limit);
            if !is_kept {
                left_out.push(limit.rule.name().to_string());
            }
            is_kept
        });

        let keys_max = match &config.store {
            StoreConfig::Memory { keys_max, .. } => *keys_max,
            StoreConfig::Redis(_) => SHARED_KEYS_MAX,
        };
        Self {
            selector: Selector::new(&config),
            ledger: Ledger::new(keys_max),
            left_out,
        }
    }

    /// Decides a batch of requests in order and passes each decision to `on_decision`. The times
    /// must never go back.
    ///
    /// The counters of the whole batch are prefetched first, so that their memory accesses overlap.
    pub fn decide<R: Attributes>(
        &mut self,
        requests: &[ReplayRequest<R>],
        mut on_decision: impl FnMut(&ReplayRequest<R>, Result<ReplayDecision<'_>, &ReplayError>),
    ) {
        let Self {
            selector, ledger, ..
        } = self;

        let batch = BatchSelection::new(selector, requests);
        let demands: Vec<Demand<'_>> = batch.limits.iter().map(Demand::as_demand).collect();
        let counter_ids: Vec<_> = demands
            .iter()
            .map(|demand| ledger.counter_id(&demand.key))
            .collect();
        ledger.prefetch(&counter_ids);

        let mut outcomes = Vec::new();
        for (request, selection) in requests.iter().zip(&batch.requests) {
            let RequestSelection { limits, unkeyed } = match selection {
                Ok(selection) => selection.clone(),
                Err(error) => {
                    on_decision(request, Err(error));
                    continue;
                }
            };

            let demands = &demands[limits.clone()];
            outcomes.clear();
            let counter_ids = &counter_ids[limits.clone()];
            ledger.spend(demands, counter_ids, request.at, &mut outcomes);

            let decision = ReplayDecision {
                limits: &batch.limits[limits],
                outcomes: &outcomes,
                unkeyed: &batch.unkeyed[unkeyed],
                is_allowed: is_allowed(demands, &outcomes),
            };
            on_decision(request, Ok(decision));
        }
    }

    /// The replayed limits, in the order of the configuration.
    pub fn limits(&self) -> impl ExactSizeIterator<Item = &LimitConfig> {
        self.selector.limits().iter()
    }

    /// The names of limits that cannot be replayed.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Whether the table of counters is full, so that some counters were evicted early.
    pub fn is_full(&self) -> bool {
        self.ledger.keys() >= self.ledger.keys_max()
    }

    /// A key of the limit with this index, as text. Hashed parts stay hashed.
    pub(crate) fn display_key(&self, index: usize, key: &EncodedKey) -> String {
        let parts = self.selector.display_key(index, key).unwrap_or_default();
        if parts.is_empty() {
            return "everyone".to_owned();
        }

        let parts: Vec<String> = parts
            .iter()
            .map(|part| format!("{}={}", part.attribute, part.value))
            .collect();
        parts.join(", ").chars().take(KEY_CHARS_MAX).collect()
    }
}

impl<'r> BatchSelection<'r> {
    fn new<R: Attributes>(selector: &'r Selector, requests: &[ReplayRequest<R>]) -> Self {
        let mut batch = Self {
            limits: Vec::with_capacity(2 * requests.len()),
            unkeyed: Vec::new(),
            requests: Vec::new(),
        };
        batch.requests.reserve_exact(requests.len());

        for request in requests {
            let selection = batch.add(selector, &request.attributes);
            batch.requests.push(selection);
        }
        batch
    }

    fn add(
        &mut self,
        selector: &'r Selector,
        request: &impl Attributes,
    ) -> Result<RequestSelection, ReplayError> {
        let Self {
            limits, unkeyed, ..
        } = self;
        let (first_limit, first_unkeyed) = (limits.len(), unkeyed.len());

        selector.for_each_selected(request, None, MissingKeyPolicy::Skip, |index, selected| {
            if selected.is_empty() {
                unkeyed.push(index);
            }
            limits.extend(selected);
        })?;
        if limits.len() - first_limit > DEMANDS_MAX {
            return Err(ReplayError::TooMany(tollgate::Error::TooManyLimits));
        }

        Ok(RequestSelection {
            limits: first_limit..limits.len(),
            unkeyed: first_unkeyed..unkeyed.len(),
        })
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

fn is_concurrency(limit: &LimitConfig) -> bool {
    matches!(limit.rule.quota(), Quota::Concurrency(_))
}
