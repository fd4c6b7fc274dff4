//! The active configuration: its limits on its store, with their metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tollgate::limiter::LimiterBuilder;
use tollgate::{
    Calendar, Demand, EncodedKey, FixedWindow, Limiter, Micros, Rule, StoreError, SystemClock,
};
use tollgate_rules::{Config, SelectError, Selector};

use super::actions::{ActionTable, ActiveActions};
use super::inline::{InlineRules, TokenLimit};
use super::overrides::{OVERRIDES, override_rules};
use super::records::SharedRecords;
use super::sealing_keys::{SealingKeys, random_key};
use super::store::{OpenStore, StoreOpenError};
use crate::metrics::{LimitMetrics, Metrics, ReservationResult, TokenCounts, UsageAlert};

/// The most probes per second that are charged: more than all replicas together send.
const PROBES_MAX: u64 = 1_000_000;

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
    pub(super) records: SharedRecords,
    /// Those of the store, which are used unless a secret is configured.
    store_keys: Arc<SealingKeys>,
    /// The keys that seal tokens.
    pub(super) sealing_keys: Arc<SealingKeys>,
    /// The limits of [`OVERRIDES`], whose positions follow the configured limits.
    overrides: Vec<Rule>,
    /// The limits that requests bring along, whose positions follow the overrides.
    pub(super) inline: InlineRules,
    /// What operators do to the limits. The only part that changes while it is in use.
    pub(super) actions: ActiveActions,
    /// By the position of a limit.
    pub(super) metrics: Vec<Arc<LimitMetrics>>,
    /// Reports keys that have used most of a limit; none if they are not reported.
    pub(super) usage: Option<UsageAlert>,
    /// By the index of a token.
    pub(super) token_metrics: TokenCounts,
    /// Whether a request came through forward-auth since this configuration is active.
    is_behind_proxy: AtomicBool,
}

impl ActiveConfig {
    pub(super) fn open(config: Config, metrics: &Metrics) -> Result<Self, StoreOpenError> {
        let store = OpenStore::open(&config.store)?;
        Self::on_store(config, store, metrics)
    }

    pub(super) fn on_store(
        config: Config,
        store: OpenStore,
        metrics: &Metrics,
    ) -> Result<Self, StoreOpenError> {
        let records = store.records(Arc::new(SystemClock::new()));
        let limiter = build(store.limiter());
        let keys = Arc::new(store.sealing_keys()?);
        Ok(Self::new(config, limiter, store, records, keys, metrics))
    }

    /// A configuration in memory, by a clock that a test controls.
    pub(super) fn with_clock(
        clock: &tollgate::ManualClock,
        config: Config,
        metrics: &Metrics,
    ) -> Self {
        let store = tollgate::MemoryStore::builder().clock(clock.clone());
        let store = OpenStore::from(store.build());
        let limiter = build(store.limiter().clock(clock.clone()));
        let records = store.records(Arc::new(clock.clone()));
        let keys = Arc::new(SealingKeys::of_process(&random_key()));
        Self::new(config, limiter, store, records, keys, metrics)
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
        let (records, keys) = (self.records.clone(), self.store_keys.clone());
        Ok(Self::new(config, limiter, store, records, keys, metrics))
    }

    fn new(
        config: Config,
        limiter: Limiter,
        store: OpenStore,
        records: SharedRecords,
        store_keys: Arc<SealingKeys>,
        metrics: &Metrics,
    ) -> Self {
        let secret = config.hashing.as_ref().map(SealingKeys::from_secret);
        let names = config.limits.iter().map(|limit| limit.rule.name().as_str());
        let usage = UsageAlert::new(config.monitoring.near_limit, metrics.usage());
        let tokens = config.server.access.tokens.iter();
        let token_metrics = metrics.set_tokens(tokens.map(|token| &token.name));
        let inline_metrics = metrics.inline().clone();
        let metrics = metrics.set_limits(names, OVERRIDES);

        let selector = Selector::new(&config);
        let actions = ActiveActions::default();
        actions.replace(ActionTable::new(&selector, []));
        Self {
            actions,
            inline: InlineRules::new(inline_metrics, metrics.len()),
            selector,
            overrides: override_rules(&config),
            sealing_keys: secret.map_or_else(|| store_keys.clone(), Arc::new),
            store_keys,
            config,
            limiter,
            store,
            records,
            metrics,
            usage,
            token_metrics,
            is_behind_proxy: AtomicBool::new(false),
        }
    }

    /// The time since the UNIX epoch.
    pub(super) fn now(&self) -> Micros {
        self.limiter.clock().now()
    }

    /// A limit as a token carries it.
    pub(super) fn limit_text(&self, rule: &Rule) -> String {
        if self.inline.contains(rule) {
            TokenLimit::Inline(*rule).to_text()
        } else {
            rule.name().to_string()
        }
    }

    /// The limit of a demand as a token carries it, with the quota that the demand uses.
    pub(super) fn demand_text(&self, demand: &Demand<'_, EncodedKey>) -> String {
        let rule = demand.limit.with_quota(*demand.quota());
        match demand.quota {
            Some(_) if !self.inline.contains(&rule) => TokenLimit::WithQuota(rule).to_text(),
            _ => self.limit_text(&rule),
        }
    }

    /// The limit that a token carries: a configured one, an override, or one that a request brought
    /// along, which must still be allowed to.
    pub(super) fn rule_from_text(&self, text: &str) -> Result<Rule, SelectError> {
        match TokenLimit::from_text(text) {
            TokenLimit::Named(name) => self.named_rule(name).copied(),
            TokenLimit::WithQuota(rule) => {
                let named = self.named_rule(rule.name())?;
                Ok(named.with_quota(*rule.quota()))
            }
            TokenLimit::Inline(rule) => {
                let (config, selector) = (&self.config.inline_limits, &self.selector);
                let rule = self.inline.read_again(config, selector, &rule)?;
                Ok(rule.with_replicas(self.config.expected_replicas))
            }
        }
    }

    /// Whether the numbers of a limit came with a request.
    pub(super) fn is_brought(&self, rule: &Rule) -> bool {
        rule.position() >= self.config.limits.len()
    }

    /// The override or configured limit with this name.
    fn named_rule(&self, name: &str) -> Result<&Rule, SelectError> {
        let mut overrides = self.overrides.iter();
        match overrides.find(|rule| rule.name().as_str() == name) {
            Some(rule) => Ok(rule),
            None => Ok(&self.selector.limit(name)?.rule),
        }
    }

    /// The limit at this index of [`OVERRIDES`].
    pub fn override_rule(&self, index: usize) -> &Rule {
        &self.overrides[index]
    }

    /// The metrics of a limit: a configured one, an override, or one that a request brought along.
    pub(super) fn metrics_of(&self, rule: &Rule) -> Option<&LimitMetrics> {
        match self.metrics.get(rule.position()) {
            Some(metrics) => Some(metrics),
            None => self.inline.metrics(rule),
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
            let metrics = match self.named_rule(limit.name()) {
                Ok(rule) => self.metrics_of(rule),
                Err(_) => self.inline.metrics_of(limit.name()),
            };
            if let Some(metrics) = metrics {
                metrics.count_reservation(result);
            }
        }
    }

    /// Notes that a proxy uses forward-auth. The first time, logs what of the configuration cannot
    /// work with it.
    pub fn note_forward_auth(&self) {
        if self.is_behind_proxy.load(Relaxed) || self.is_behind_proxy.swap(true, Relaxed) {
            return;
        }
        for warning in self.forward_auth_warnings() {
            tracing::warn!("{warning}");
        }
    }

    /// What of the configuration cannot work with forward-auth, if a proxy uses it and the file
    /// does not say so.
    pub(super) fn forward_auth_warnings(&self) -> impl Iterator<Item = &String> {
        let config = &self.config;
        let is_noted = self.is_behind_proxy.load(Relaxed);
        let warnings = config.forward_auth_warnings.iter();
        warnings.filter(move |warning| is_noted && !config.warnings.contains(warning))
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

fn build(limiter: LimiterBuilder) -> Limiter {
    limiter.build().expect("a limiter without limits is valid")
}
