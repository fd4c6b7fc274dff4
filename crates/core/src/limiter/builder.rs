//! Builds a limiter.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::failure::StoreMonitor;
use super::permit_ids::PermitIds;
use super::rules::Rules;
use super::split_store::SplitStore;
use super::{Error, Inner, Limiter};
use crate::clock::{Clock, SystemClock};
use crate::consistency::Consistency;
use crate::limit::Limit;
use crate::memory::MemoryStore;
use crate::store::Store;

/// Builds a [`Limiter`]. See [`Limiter::builder`].
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

    /// Builds the limiter. Fails if the number of replicas is 0 or a limit is invalid.
    pub fn build(self) -> Result<Limiter, Error> {
        if self.expected_replicas == Some(0) {
            return Err(Error::NoReplicas);
        }
        validate_limits(self.build_unvalidated())
    }

    /// Builds a limiter that shares the stores, the counters and the store's state with another.
    pub(super) fn build_sharing(self, other: &Limiter) -> Result<Limiter, Error> {
        if self.expected_replicas == Some(0) {
            return Err(Error::NoReplicas);
        }

        let other = &other.inner;
        let shared = SharedParts {
            shared_store: other.shared_store.clone(),
            local_store: other.local_store.clone(),
            clock: other.clock.clone(),
            permit_ids: other.permit_ids.clone(),
            monitor: other.monitor.clone(),
        };
        validate_limits(self.build_on(shared))
    }

    /// Builds the limiter. Checks of an invalid limit return its error.
    pub(super) fn build_unvalidated(mut self) -> Limiter {
        let store = self.store.take();
        let clock = self.clock.take();

        self.build_on(SharedParts {
            shared_store: store.unwrap_or_else(|| Arc::new(MemoryStore::new())),
            local_store: None,
            clock: clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
            permit_ids: Arc::default(),
            monitor: Arc::default(),
        })
    }

    fn build_on(self, shared: SharedParts) -> Limiter {
        let SharedParts {
            shared_store,
            mut local_store,
            clock,
            permit_ids,
            monitor,
        } = shared;

        // Local limits need a store of this process next to the shared one.
        let is_local = |limit: &Limit| {
            limit
                .rule()
                .is_ok_and(|rule| rule.consistency() == Consistency::Local)
        };
        if local_store.is_none() && self.limits.iter().any(is_local) {
            local_store = Some(MemoryStore::builder().shared_clock(clock.clone()).build());
        }
        let store = match &local_store {
            Some(local) => Arc::new(SplitStore {
                local: local.clone(),
                shared: shared_store.clone(),
            }),
            None => shared_store.clone(),
        };

        let replicas = self
            .expected_replicas
            .and_then(NonZeroU32::new)
            .unwrap_or(NonZeroU32::MIN);
        let rules = Rules::new(self.limits, replicas);

        Limiter {
            inner: Arc::new(Inner {
                store,
                shared_store,
                local_store,
                clock,
                rules,
                permit_ids,
                replicas,
                monitor,
            }),
        }
    }
}

/// The parts that limiters with different limits share; see [`Limiter::with_limits`].
struct SharedParts {
    shared_store: Arc<dyn Store>,
    local_store: Option<MemoryStore>,
    clock: Arc<dyn Clock>,
    permit_ids: Arc<PermitIds>,
    monitor: Arc<StoreMonitor>,
}

/// Returns the limiter, or the error of its first invalid limit.
fn validate_limits(limiter: Limiter) -> Result<Limiter, Error> {
    for name in limiter.inner.rules.names() {
        limiter.rule(name)?;
    }
    Ok(limiter)
}
