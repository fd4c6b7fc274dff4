//! Builds a limiter.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::engine::Engine;
use super::error::Error;
use super::rules::Rules;
use crate::clock::{Clock, SystemClock};
use crate::limit::Limit;
use crate::memory::MemoryStore;
use crate::store::Store;

/// Builds a [`Limiter`](crate::Limiter). See [`Limiter::builder`](crate::Limiter::builder).
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::builder()
///     .limit(Limit::sliding_window("api", 100, Duration::from_secs(60)))
///     .build()?;
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct LimiterBuilder {
    store: Option<Arc<dyn Store>>,
    clock: Option<Arc<dyn Clock>>,
    limits: Vec<Limit>,
    expected_replicas: Option<u32>,
}

impl LimiterBuilder {
    /// Sets the store that keeps the counters. Defaults to a new memory store.
    #[must_use]
    pub fn store(mut self, store: impl Store + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets the clock that waiting checks use. Defaults to real time. Stores have their own clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Adds a limit.
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Adds several limits.
    #[must_use]
    pub fn limits(mut self, limits: impl IntoIterator<Item = Limit>) -> Self {
        self.limits.extend(limits);
        self
    }

    /// Sets how many replicas share the store, including this one. Defaults to 1. While the store
    /// is unavailable, each replica allows this fraction of the limits whose policy is
    /// [`FailurePolicy::Local`](crate::FailurePolicy::Local).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{FailurePolicy, Limit, Limiter};
    ///
    /// // While the store is unavailable, this replica allows 25 per minute.
    /// let api = Limit::sliding_window("api", 100, Duration::from_secs(60))
    ///     .on_store_failure(FailurePolicy::Local);
    /// let limiter = Limiter::builder().limit(api).expected_replicas(4).build()?;
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn expected_replicas(mut self, replicas: u32) -> Self {
        self.expected_replicas = Some(replicas);
        self
    }

    pub(super) fn build_engine(mut self) -> Result<Engine, Error> {
        let store = self.store.take();
        let clock = self.clock.take();

        let rules = self.rules()?;
        Ok(Engine {
            shared: store.unwrap_or_else(|| Arc::new(MemoryStore::new())),
            local: Arc::default(),
            clock: clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
            rules,
            permit_ids: Arc::default(),
            monitor: Arc::default(),
            local_fallback: Arc::default(),
        })
    }

    /// An engine that shares the stores, the counters and the store's state with another.
    pub(super) fn build_sharing(self, other: &Engine) -> Result<Engine, Error> {
        Ok(Engine {
            shared: other.shared.clone(),
            local: other.local.clone(),
            clock: other.clock.clone(),
            rules: self.rules()?,
            permit_ids: other.permit_ids.clone(),
            monitor: other.monitor.clone(),
            local_fallback: other.local_fallback.clone(),
        })
    }

    /// The validated limits.
    fn rules(self) -> Result<Rules, Error> {
        let replicas = NonZeroU32::new(self.expected_replicas.unwrap_or(1));
        let replicas = replicas.ok_or(Error::NoReplicas)?;

        let rules = self.limits.into_iter().map(|limit| {
            let name = limit.name().to_owned();
            let rule = limit.validate();
            rule.map_err(|source| Error::Limit {
                limit: name,
                source,
            })
        });
        Rules::new(rules.collect::<Result<Vec<_>, _>>()?, replicas)
    }
}
