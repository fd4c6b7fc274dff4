//! The active configuration: its limits on its store, with their metrics.

use std::sync::Arc;
use std::time::Duration;

use tollgate::limiter::LimiterBuilder;
use tollgate::store::Intent;
use tollgate::{Calendar, Decision, Limit, Limiter, Quota, Rate};
use tollgate_rules::{Config, Selector};

use super::GateDemand;
use super::store::{OpenStore, StoreOpenError};
use crate::metrics::{DeniedKeys, LimitMetrics, Metrics};

/// Names of the limits for quotas that come with a request, as Envoy's descriptors may carry them:
/// one for each unit of time, and one for all multiples of a unit.
pub(crate) const OVERRIDES: [&str; 8] = [
    "override:second",
    "override:minute",
    "override:hour",
    "override:day",
    "override:week",
    "override:month",
    "override:year",
    "override:multiple",
];

/// A configuration with the limiter and store that carry it out. Immutable: a reload replaces it.
#[derive(Debug)]
pub(crate) struct ActiveConfig {
    pub(crate) config: Config,
    pub(crate) selector: Selector,
    pub(crate) limiter: Limiter,
    pub(crate) store: OpenStore,
    /// By the index of a limit; overrides follow the configured limits.
    metrics: Vec<Arc<LimitMetrics>>,
    denied_keys: Arc<DeniedKeys>,
}

impl ActiveConfig {
    pub(super) fn open(config: Config, metrics: &Metrics) -> Result<Self, StoreOpenError> {
        let store = OpenStore::open(&config.store)?;
        Ok(Self::with_store(store.limiter(), store, config, metrics))
    }

    /// A configuration in memory, by a clock that a test controls.
    #[cfg(test)]
    pub(super) fn with_clock(
        clock: &tollgate::ManualClock,
        config: Config,
        metrics: &Metrics,
    ) -> Self {
        let store = OpenStore::Memory(
            tollgate::MemoryStore::builder()
                .clock(clock.clone())
                .build(),
        );

        Self::with_store(store.limiter().clock(clock.clone()), store, config, metrics)
    }

    fn with_store(
        limiter: LimiterBuilder,
        store: OpenStore,
        config: Config,
        metrics: &Metrics,
    ) -> Self {
        let limiter = limiter
            .limits(limits(&config))
            .expected_replicas(config.expected_replicas.get())
            .build()
            .expect("a validated configuration has valid limits with unique names");

        Self::new(config, limiter, store, metrics)
    }

    /// The same service with another configuration. Keeps the store if its settings are unchanged.
    pub(super) fn reconfigured(
        &self,
        config: Config,
        metrics: &Metrics,
    ) -> Result<Self, StoreOpenError> {
        if config.store != self.config.store {
            tracing::warn!("store settings changed: opening the new store, counts start from zero");
            return Self::open(config, metrics);
        }

        let limiter = self
            .limiter
            .with_limits(limits(&config), config.expected_replicas.get())
            .expect("a validated configuration has valid limits with unique names");
        Ok(Self::new(config, limiter, self.store.clone(), metrics))
    }

    fn new(config: Config, limiter: Limiter, store: OpenStore, metrics: &Metrics) -> Self {
        let names = config.limits.iter().map(|limit| limit.rule.name().as_str());
        let denied_keys = metrics.denied_keys().clone();
        let metrics = metrics.set_limits(names, OVERRIDES);

        Self {
            selector: Selector::new(&config),
            config,
            limiter,
            store,
            metrics,
            denied_keys,
        }
    }

    /// Counts the outcome of each limit.
    pub(crate) fn count(&self, demands: &[GateDemand<'_>], decision: &Decision) {
        for (demand, outcome) in demands.iter().zip(decision.limits()) {
            if let Some(metrics) = self.metrics.get(demand.index) {
                metrics.count(outcome);
            }
        }

        if self.denied_keys.is_watched() {
            self.record_denied_keys(demands, decision);
        }
    }

    /// Records the keys that configured limits denied, shadow limits included. Keys of overrides
    /// are left out: they have no key recipe to display them with.
    #[cold]
    fn record_denied_keys(&self, demands: &[GateDemand<'_>], decision: &Decision) {
        for (demand, outcome) in demands.iter().zip(decision.limits()) {
            if outcome.retry().is_some() && demand.index < self.config.limits.len() {
                let limit_id = self.metrics[demand.index].id();
                self.denied_keys.record(limit_id, &demand.key);
            }
        }
    }

    /// The metrics of each limit: the configured ones in their order, then the overrides.
    pub(crate) fn metrics(&self) -> &[Arc<LimitMetrics>] {
        &self.metrics
    }

    /// True when the limit counts requests in flight.
    pub(crate) fn is_concurrency(&self, limit: &str) -> bool {
        self.limiter
            .rule(limit)
            .is_ok_and(|rule| matches!(rule.quota(), Quota::Concurrency(_)))
    }

    /// Sends the store a call that changes nothing, so that an outage, and its end, are noticed
    /// even while there is no traffic.
    pub(crate) async fn probe(&self) {
        let peek = self
            .limiter
            .request(Intent::Peek)
            .and(OVERRIDES[0], "probe")
            .limit_cost(0);
        // The limiter's health records the result.
        drop(peek.await);
    }
}

/// The configured limits, then the overrides.
fn limits(config: &Config) -> Vec<Limit> {
    let days = |days: u64| Duration::from_secs(days * 86_400);

    // Requests bring their own quotas; the ones given here only fix the kind of window.
    let [second, minute, hour, day, week, month, year, multiple] = OVERRIDES;
    let overrides = [
        Limit::calendar_window(second, 1, Calendar::Second),
        Limit::calendar_window(minute, 1, Calendar::Minute),
        Limit::calendar_window(hour, 1, Calendar::Hour),
        Limit::calendar_window(day, 1, Calendar::Day),
        Limit::fixed_window(week, 1, days(7)),
        Limit::calendar_window(month, 1, Calendar::Month),
        Limit::fixed_window(year, 1, days(366)),
        // Only a token bucket works for any length of time.
        Limit::token_bucket(multiple, 1, Rate::per_second(1)),
    ];

    config
        .limits
        .iter()
        .map(|limit| Limit::from(limit.rule))
        .chain(overrides)
        .collect()
}
