//! Making a limiter.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::failure::Watch;
use super::permit_ids::PermitIds;
use super::rules::Rules;
use super::split_store::Scoped;
use super::{Error, Inner, Limiter};
use crate::clock::{Clock, SystemClock};
use crate::consistency::Consistency;
use crate::limit::Limit;
use crate::memory::MemoryStore;
use crate::store::Store;

/// See [`Limiter::builder`].
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
    /// Where counters live; a new memory store if nothing is said.
    #[must_use]
    pub fn store(mut self, store: impl Store + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// The clock to wait by; real time if nothing is said. Stores have a time of their own.
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

    /// How many processes share the store, this one included; 1 if nothing is said. While the store
    /// is away, limits whose policy is [`FailurePolicy::Local`](crate::FailurePolicy::Local)
    /// grant this part of themselves in each process.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter, FailurePolicy};
    ///
    /// let api = Limit::sliding_window("api", 100, Duration::from_secs(60));
    /// let limiter = Limiter::builder()
    ///     .limit(api.on_store_failure(FailurePolicy::Local)) // while the store is away, 25 per minute here
    ///     .expected_replicas(4)
    ///     .build()?;
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn expected_replicas(mut self, replicas: u32) -> Self {
        self.expected_replicas = Some(replicas);
        self
    }

    /// The limiter, or what is wrong with the number of replicas or the first limit that is.
    pub fn build(self) -> Result<Limiter, Error> {
        if self.expected_replicas == Some(0) {
            return Err(Error::NoReplicas);
        }
        first_wrong(self.build_with_errors())
    }

    /// The limiter on the store of another, sharing its counters and what is known of the store.
    pub(super) fn build_like(self, other: &Limiter) -> Result<Limiter, Error> {
        if self.expected_replicas == Some(0) {
            return Err(Error::NoReplicas);
        }
        let Inner {
            shared,
            own,
            clock,
            permit_ids,
            watch,
            ..
        } = &*other.inner;
        let place = Place {
            shared: shared.clone(),
            own: own.clone(),
            clock: clock.clone(),
            permit_ids: permit_ids.clone(),
            watch: watch.clone(),
        };
        first_wrong(self.limits_on(place))
    }

    /// The limiter, with what is wrong kept as the answer to checks.
    pub(super) fn build_with_errors(mut self) -> Limiter {
        let place = Place {
            shared: self
                .store
                .take()
                .unwrap_or_else(|| Arc::new(MemoryStore::new())),
            own: None,
            clock: self
                .clock
                .take()
                .unwrap_or_else(|| Arc::new(SystemClock::new())),
            permit_ids: Arc::default(),
            watch: Arc::default(),
        };
        self.limits_on(place)
    }

    fn limits_on(self, place: Place) -> Limiter {
        let Place {
            shared,
            mut own,
            clock,
            permit_ids,
            watch,
        } = place;
        let is_local = |limit: &Limit| {
            limit
                .rule()
                .is_ok_and(|rule| rule.consistency() == Consistency::Local)
        };
        if own.is_none() && self.limits.iter().any(is_local) {
            own = Some(MemoryStore::builder().shared_clock(clock.clone()).build());
        }
        let store = match &own {
            Some(own) => Arc::new(Scoped {
                own: own.clone(),
                shared: shared.clone(),
            }),
            None => shared.clone(),
        };
        let replicas = self
            .expected_replicas
            .and_then(NonZeroU32::new)
            .unwrap_or(NonZeroU32::MIN);
        let rules = Rules::new(self.limits, replicas);
        Limiter {
            inner: Arc::new(Inner {
                store,
                shared,
                own,
                clock,
                rules,
                permit_ids,
                replicas,
                watch,
            }),
        }
    }
}

/// What limiters with different limits can share.
struct Place {
    shared: Arc<dyn Store>,
    own: Option<MemoryStore>,
    clock: Arc<dyn Clock>,
    permit_ids: Arc<PermitIds>,
    watch: Arc<Watch>,
}

/// The limiter, or what is wrong with the first of its limits that is.
fn first_wrong(limiter: Limiter) -> Result<Limiter, Error> {
    for name in limiter.inner.rules.names() {
        limiter.rule(name)?;
    }
    Ok(limiter)
}
