//! Making a limiter.

use std::sync::Arc;

use super::lease_ids::LeaseIds;
use super::rules::Rules;
use super::{Error, Inner, Limiter};
use crate::clock::{Clock, SystemClock};
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

    /// The limiter, or what is wrong with the first limit that is.
    pub fn build(self) -> Result<Limiter, Error> {
        let limiter = self.build_with_errors();
        for name in limiter.inner.rules.names() {
            limiter.rule(name)?;
        }
        Ok(limiter)
    }

    /// The limiter, with what is wrong kept as the answer to checks.
    pub(super) fn build_with_errors(self) -> Limiter {
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        Limiter {
            inner: Arc::new(Inner {
                store,
                clock,
                rules: Rules::new(self.limits),
                lease_ids: LeaseIds::default(),
            }),
        }
    }
}
