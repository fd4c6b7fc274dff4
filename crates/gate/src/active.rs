//! The active configuration: its limits on its store, with their metrics.

use std::sync::Arc;

use tollgate::limiter::LimiterBuilder;
use tollgate::store::Intent;
use tollgate::{
    Calendar, Clock, Decision, Demand, EncodedKey, FixedWindow, Limiter, Quota, Rule, StoreError,
    SystemClock,
};
use tollgate_rules::{
    Attributes, Config, MissingKeyPolicy, RequestedLimit, SelectError, Selection, Selector,
};

use super::inline::{self, InlineRules};
use super::overrides::{OVERRIDES, override_rules};
use super::permit::PermitSealer;
use super::records::SharedRecords;
use super::store::{OpenStore, StoreOpenError};
use super::usage_alert::UsageAlert;
use crate::metrics::{DeniedKeys, LimitMetrics, Metrics, ReservationResult, TokenCounts};

/// The most probes per second that are charged: more than all replicas together send.
const PROBES_MAX: u64 = 1_000_000;

/// What a request asks for in addition to its attributes.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions<'q> {
    /// The limits to check; none checks every limit whose conditions match.
    pub limits: Option<&'q [RequestedLimit<'q>]>,
    /// Units the request costs; none uses the cost that each limit configures.
    pub cost: Option<u64>,
    /// Whether the request is charged or only peeks.
    pub intent: Intent,
}

/// A limit whose demands need no selection: the key is what the caller says, the quota is that of
/// the rule.
#[derive(Clone, Copy, Debug)]
pub struct DirectLimit {
    pub(super) rule: Rule,
    /// The units of a request that states no cost.
    pub(super) cost: u64,
}

/// Why a request could not be decided.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// The request does not fit the limits: for example, an attribute is missing.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The limiter could not decide: for example, the store is unavailable.
    #[error(transparent)]
    Limiter(#[from] tollgate::Error),
}

impl DecideError {
    /// The store's error, if the store and not the request is the cause.
    pub const fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Limiter(tollgate::Error::Store(error)) => Some(error),
            Self::Limiter(_) | Self::Select(_) => None,
        }
    }
}

/// A configuration with the limiter and store that carry it out. Immutable: a reload replaces it.
#[derive(Debug)]
pub struct ActiveConfig {
    /// The validated configuration.
    pub config: Config,
    /// Selects the limits of a request.
    pub selector: Selector,
    pub(super) limiter: Limiter,
    pub(super) store: OpenStore,
    records: SharedRecords,
    pub(super) permits: PermitSealer,
    /// The limits of [`OVERRIDES`], whose positions follow the configured limits.
    overrides: Vec<Rule>,
    /// The limits that requests bring along, whose positions follow the overrides.
    inline: InlineRules,
    /// By the position of a limit.
    metrics: Vec<Arc<LimitMetrics>>,
    denied_keys: Arc<DeniedKeys>,
    usage: UsageAlert,
    /// By the index of a token.
    pub(super) token_metrics: TokenCounts,
}

impl ActiveConfig {
    pub(super) fn open(config: Config, metrics: &Metrics) -> Result<Self, StoreOpenError> {
        let store = OpenStore::open(&config.store)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let records = store.records(clock.clone());
        Ok(Self::with_store(
            store.limiter(),
            store,
            records,
            clock,
            config,
            metrics,
        ))
    }

    /// A configuration in memory, by a clock that a test controls.
    pub(super) fn with_clock(
        clock: &tollgate::ManualClock,
        config: Config,
        metrics: &Metrics,
    ) -> Self {
        let store = tollgate::MemoryStore::builder().clock(clock.clone());
        let store = OpenStore::from(store.build());
        let limiter = store.limiter().clock(clock.clone());
        let clock: Arc<dyn Clock> = Arc::new(clock.clone());
        let records = store.records(clock.clone());
        Self::with_store(limiter, store, records, clock, config, metrics)
    }

    fn with_store(
        limiter: LimiterBuilder,
        store: OpenStore,
        records: SharedRecords,
        clock: Arc<dyn Clock>,
        config: Config,
        metrics: &Metrics,
    ) -> Self {
        let limiter = limiter.build().expect("a limiter without limits is valid");
        Self::new(config, limiter, store, records, clock, metrics)
    }

    /// The same service with another configuration. Keeps the store if its settings are unchanged.
    pub(super) fn reconfigured(
        &self,
        config: Config,
        metrics: &Metrics,
    ) -> Result<Self, StoreOpenError> {
        if config.store != self.config.store {
            let stores = [&config.store, &self.config.store];
            if stores.iter().any(|store| store.snapshot().is_some()) {
                return Err(StoreOpenError::NeedsRestart);
            }

            tracing::warn!("store settings changed: opening the new store, counts start from zero");
            let mut next = Self::open(config, metrics)?;
            if !next.records.are_shared() && !self.records.are_shared() {
                next.records = self.records.clone();
            }
            return Ok(next);
        }

        let (limiter, store) = (self.limiter.clone(), self.store.clone());
        let (records, clock) = (self.records.clone(), self.usage.clock().clone());
        Ok(Self::new(config, limiter, store, records, clock, metrics))
    }

    fn new(
        config: Config,
        limiter: Limiter,
        store: OpenStore,
        records: SharedRecords,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
    ) -> Self {
        let names = config.limits.iter().map(|limit| limit.rule.name().as_str());
        let denied_keys = metrics.denied_keys().clone();
        let usage = UsageAlert::new(metrics, clock, config.monitoring.near_limit);
        let tokens = config.server.access.tokens.iter();
        let token_metrics = metrics.set_tokens(tokens.map(|token| &token.name));
        let inline_metrics = metrics.inline().clone();
        let metrics = metrics.set_limits(names, OVERRIDES);

        Self {
            inline: InlineRules::new(inline_metrics, metrics.len()),
            selector: Selector::new(&config),
            overrides: override_rules(&config),
            permits: PermitSealer::new(config.hashing.as_ref()),
            config,
            limiter,
            store,
            records,
            metrics,
            denied_keys,
            usage,
            token_metrics,
        }
    }

    /// The rules of the limits that a request brings along.
    pub(super) fn inline_rules(&self, options: CheckOptions<'_>) -> Result<Vec<Rule>, SelectError> {
        let limits = options.limits.unwrap_or_default();
        let config = &self.config.inline_limits;
        self.inline.read(config, &self.selector, limits)
    }

    /// A limit whose demands need no selection; none for all other limits.
    pub fn direct_limit(&self, limit: &RequestedLimit<'_>) -> Option<DirectLimit> {
        if limit.inline.is_some() {
            let limits = std::slice::from_ref(limit);
            let rules = self
                .inline
                .read(&self.config.inline_limits, &self.selector, limits);
            let rule = *rules.ok()?.first()?;
            return Some(DirectLimit { rule, cost: 1 });
        }

        let limit = self.selector.plain_limit(&limit.name)?;
        Some(DirectLimit {
            rule: limit.rule,
            cost: limit.cost.as_ref().map_or(1, |cost| cost.default),
        })
    }

    /// Selects the limits that apply to a request. `inline` has the rules that it brings along.
    pub(super) fn select<'r>(
        &'r self,
        attributes: &impl Attributes,
        inline: &'r [Rule],
        options: CheckOptions<'_>,
    ) -> Result<Selection<'r>, SelectError> {
        let CheckOptions { limits, cost, .. } = options;
        let selector = &self.selector;
        match limits {
            Some(limits) => selector.select_requested(limits, inline, attributes, cost),
            None => self
                .selector
                .select(attributes, cost, MissingKeyPolicy::Error),
        }
    }

    /// Refunds these demands, except those on concurrency limits.
    pub async fn refund(&self, demands: &[Demand<'_, EncodedKey>]) -> Result<(), DecideError> {
        let is_rate =
            |demand: &&Demand<'_, EncodedKey>| !matches!(demand.quota(), Quota::Concurrency(_));
        let demands: Selection<'_> = demands.iter().filter(is_rate).cloned().collect();
        Ok(self.limiter.refund_request(&demands).await?)
    }

    /// A limit as a token carries it.
    pub(super) fn limit_text(&self, rule: &Rule) -> String {
        inline::limit_text(rule, self.inline.contains(rule))
    }

    /// The limit of a demand as a token carries it, with the quota that the demand uses.
    pub(super) fn demand_text(&self, demand: &Demand<'_, EncodedKey>) -> String {
        match demand.quota {
            Some(quota) => inline::limit_text(&demand.limit.with_quota(quota), true),
            None => self.limit_text(demand.limit),
        }
    }

    /// The limit that a token carries: a configured one, an override, or one that a request brought
    /// along.
    pub(super) fn rule_from_text(&self, text: &str) -> Result<Rule, SelectError> {
        if let Some(rule) = inline::rule_from_text(text) {
            return Ok(rule.with_replicas(self.config.expected_replicas));
        }

        let mut overrides = self.overrides.iter();
        match overrides.find(|rule| rule.name().as_str() == text) {
            Some(rule) => Ok(*rule),
            None => Ok(self.selector.limit(text)?.rule),
        }
    }

    /// The limit at this index of [`OVERRIDES`].
    pub fn override_rule(&self, index: usize) -> &Rule {
        &self.overrides[index]
    }

    /// Resets what a key has used of a limit.
    pub async fn reset(&self, demand: &Demand<'_, EncodedKey>) -> Result<(), DecideError> {
        let limit = self.limiter.with_rule(demand.limit);
        Ok(limit.reset(&demand.key).await?)
    }

    /// Counts the outcome of each limit.
    pub fn count(&self, demands: &[Demand<'_, EncodedKey>], decision: &Decision) {
        for (demand, outcome) in demands.iter().zip(decision.limits()) {
            let configured = self.metrics.get(demand.limit.position());
            let metrics = match configured {
                Some(metrics) => Some(&**metrics),
                None => self.inline.metrics(demand.limit),
            };
            if let Some(metrics) = metrics {
                metrics.count(outcome);
            }
        }

        if self.denied_keys.is_watched() {
            self.record_denied_keys(demands, decision);
        }
        if self.usage.is_on() {
            let configured = &self.metrics[..self.config.limits.len()];
            self.usage.record(demands, decision, configured);
        }
    }

    /// Records the keys that configured limits denied, shadow limits included. Keys of overrides
    /// and of limits that requests bring along are left out: they have no key recipe to display
    /// them with.
    #[cold]
    fn record_denied_keys(&self, demands: &[Demand<'_, EncodedKey>], decision: &Decision) {
        for (demand, outcome) in demands.iter().zip(decision.limits()) {
            let position = demand.limit.position();
            if outcome.retry().is_some() && position < self.config.limits.len() {
                let limit_id = self.metrics[position].id();
                self.denied_keys.record(limit_id, &demand.key);
            }
        }
    }

    /// Counts what became of a reservation of these limits. They are found by their names, because
    /// a token carries no positions.
    pub(super) fn count_reservation<'r>(
        &self,
        limits: impl Iterator<Item = &'r Rule>,
        result: ReservationResult,
    ) {
        for limit in limits {
            let name = limit.name();
            let mut overrides = self.overrides.iter();
            let known = match self.selector.limit(name) {
                Ok(configured) => Some(configured.rule.position()),
                Err(_) => overrides
                    .find(|rule| rule.name() == name)
                    .map(Rule::position),
            };
            let metrics = match known.and_then(|position| self.metrics.get(position)) {
                Some(metrics) => Some(&**metrics),
                None => self.inline.metrics_of(name),
            };
            if let Some(metrics) = metrics {
                metrics.count_reservation(result);
            }
        }
    }

    /// The records that the replicas on the store share.
    pub const fn records(&self) -> &SharedRecords {
        &self.records
    }

    /// True when no decision has to wait for a store.
    pub const fn decides_in_process(&self) -> bool {
        self.store.is_in_process()
    }

    /// The metrics of each limit: the configured ones in their order, then the overrides.
    pub fn metrics(&self) -> &[Arc<LimitMetrics>] {
        &self.metrics
    }

    /// Sends the store a call, so that an outage, and its end, are noticed even while there is no
    /// traffic. During an outage the call charges a counter of its own, which expires within
    /// seconds: a store that refuses writes may still answer reads.
    pub async fn probe(&self) {
        let limit = self.limiter.with_rule(&self.overrides[0]);
        // The limiter's health records the result.
        if self.limiter.health().degraded {
            if let Ok(quota) = FixedWindow::aligned(PROBES_MAX, Calendar::Second) {
                drop(limit.check("probe").quota(quota).await);
            }
        } else {
            drop(limit.peek("probe").cost(0).await);
        }
    }
}
