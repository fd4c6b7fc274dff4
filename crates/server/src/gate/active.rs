//! A configuration in force: its limits on its store, and what is counted about them.

use std::sync::Arc;
use std::time::Duration;

use tollgate::limiter::LimiterBuilder;
use tollgate::store::Intent;
use tollgate::{Calendar, Decision, Limit, Limiter, Quota, Rate};
use tollgate_rules::{Config, Selector};

use super::GateDemand;
use super::store::{OpenStore, StoreOpenError};
use crate::metrics::{DeniedKeys, LimitMetrics, Metrics};

/// The limits that a request brings with itself, one for each unit of time and one for all
/// multiples of them: Envoy's descriptors may. Their numbers come with the request.
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

/// A configuration in force.
#[derive(Debug)]
pub(crate) struct ActiveConfig {
    pub(crate) config: Config,
    pub(crate) selector: Selector,
    pub(crate) limiter: Limiter,
    pub(crate) store: OpenStore,
    metrics: Vec<Arc<LimitMetrics>>,
    denied_keys: Arc<DeniedKeys>,
}

impl ActiveConfig {
    pub(super) fn open(config: Config, metrics: &Metrics) -> Result<Self, StoreOpenError> {
        let store = OpenStore::open(&config.store)?;
        Ok(Self::on(store.limiter(), store, config, metrics))
    }

    /// A configuration in memory, by another clock than the machine's.
    #[cfg(test)]
    pub(super) fn at(clock: &tollgate::ManualClock, config: Config, metrics: &Metrics) -> Self {
        let store = OpenStore::Memory(
            tollgate::MemoryStore::builder()
                .clock(clock.clone())
                .build(),
        );
        Self::on(store.limiter().clock(clock.clone()), store, config, metrics)
    }

    fn on(limiter: LimiterBuilder, store: OpenStore, config: Config, metrics: &Metrics) -> Self {
        let limiter = limiter
            .limits(limits(&config))
            .expected_replicas(config.expected_replicas.get())
            .build()
            .expect("a configuration holds only limits that are right, under names that differ");
        Self::new(config, limiter, store, metrics)
    }

    /// The next configuration, on the same store if it is described in the same way.
    pub(super) fn followed_by(
        &self,
        config: Config,
        metrics: &Metrics,
    ) -> Result<Self, StoreOpenError> {
        if config.store != self.config.store {
            tracing::warn!("the store is configured anew; counts begin anew there");
            return Self::open(config, metrics);
        }
        let limiter = self
            .limiter
            .with_limits(limits(&config), config.expected_replicas.get())
            .expect("a configuration holds only limits that are right, under names that differ");
        Ok(Self::new(config, limiter, self.store.clone(), metrics))
    }

    fn new(config: Config, limiter: Limiter, store: OpenStore, metrics: &Metrics) -> Self {
        let names = config.limits.iter().map(|rule| rule.limit.name());
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

    /// Counts what each limit said.
    pub(crate) fn count(&self, demands: &[GateDemand<'_>], decision: &Decision) {
        for (demand, status) in demands.iter().zip(decision.limits()) {
            if let Some(meter) = self.metrics.get(demand.index) {
                meter.count(status);
            }
        }
        if self.denied_keys.is_watched() {
            self.record_denied_keys(demands, decision);
        }
    }

    /// Notes whom limits of the file denied_keys, or would have. Keys that requests bring limits for
    /// have no recipe to be shown by.
    #[cold]
    fn record_denied_keys(&self, demands: &[GateDemand<'_>], decision: &Decision) {
        for (demand, status) in demands.iter().zip(decision.limits()) {
            if status.retry().is_some() && demand.index < self.config.limits.len() {
                self.denied_keys
                    .record(self.metrics[demand.index].id(), &demand.key);
            }
        }
    }

    /// What is counted about each limit, those of the file first and in its order.
    pub(crate) fn metrics(&self) -> &[Arc<LimitMetrics>] {
        &self.metrics
    }

    /// True when the limit counts requests in flight.
    pub(crate) fn is_concurrency(&self, limit: &str) -> bool {
        self.limiter
            .rule(limit)
            .is_ok_and(|rule| matches!(rule.quota(), Quota::Concurrency(_)))
    }

    /// Asks the store something that changes nothing, so that an outage is noticed, and its end,
    /// while nobody asks.
    pub(crate) async fn probe(&self) {
        let asked = self
            .limiter
            .request(Intent::Peek)
            .and(OVERRIDES[0], "probe")
            .limit_cost(0);
        // What comes of it is in the limiter's health.
        drop(asked.await);
    }
}

/// The limits of the file, then the overrides.
fn limits(config: &Config) -> Vec<Limit> {
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let [second, minute, hour, day, week, month, year, multiple] = OVERRIDES;
    let overrides = [
        Limit::calendar_window(second, 1, Calendar::Second),
        Limit::calendar_window(minute, 1, Calendar::Minute),
        Limit::calendar_window(hour, 1, Calendar::Hour),
        Limit::calendar_window(day, 1, Calendar::Day),
        Limit::fixed_window(week, 1, days(7)),
        Limit::calendar_window(month, 1, Calendar::Month),
        Limit::fixed_window(year, 1, days(366)),
        // A bucket is the one shape that any length of time fits.
        Limit::token_bucket(multiple, 1, Rate::per_second(1)),
    ];
    config
        .limits
        .iter()
        .map(|rule| rule.limit.clone())
        .chain(overrides)
        .collect()
}
