//! The limiter: looks up limits by name, spends a request's demands in the store, and turns the
//! outcomes into a decision.

mod builder;
mod check;
mod demands;
mod error;
mod failure;
mod permit;
mod permit_ids;
mod refund;
mod rules;
mod split_store;
mod waiting;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

pub use builder::LimiterBuilder;
pub use check::{Check, CheckFuture};
pub use demands::{DemandList, DemandOptions, Demands, OneDemand};
pub use error::Error;
pub use failure::{Health, StoreErrors};
pub use permit::{Acquisition, Permit};
pub use refund::{Refund, RefundFuture};

use self::demands::RuleLookup;
use self::failure::StoreMonitor;
use self::permit_ids::PermitIds;
use self::rules::Rules;
use crate::algorithm::PermitId;
use crate::clock::Clock;
use crate::key::ToKey;
use crate::limit::{Limit, Rule};
use crate::memory::MemoryStore;
use crate::store::{Intent, SpendReply, Store, StoreError, StoreFuture};

/// The most limit names that an error message lists.
const SHOWN_NAMES_MAX: usize = 8;

/// Checks requests against named limits on one store. Clones share limits, counters and state.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, Rate};
///
/// # async fn handler() -> Result<(), tollgate::Error> {
/// let limiter = Limiter::in_memory([
///     Limit::sliding_window("per-user", 100, Duration::from_secs(60)),
///     Limit::token_bucket("per-tenant", 1_000, Rate::per_second(50)),
/// ]);
///
/// // Both limits pass, or neither is charged.
/// let decision = limiter.check("per-user", "ann").and("per-tenant", "acme").cost(5).await?;
/// if let Some(limit) = decision.denied_by() {
///     println!("denied by {}, retry in {:?}", limit.name(), decision.retry_after());
/// }
/// # Ok(())
/// # }
/// # pollster::block_on(handler()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    inner: Arc<Inner>,
}

struct Inner {
    /// The store that all calls go to: the shared store, or a [`split_store::SplitStore`] if a
    /// limit is local.
    store: Arc<dyn Store>,
    /// The store for the counters that replicas share.
    shared_store: Arc<dyn Store>,
    /// The counters of this process; `None` while no limit is local.
    local_store: Option<MemoryStore>,
    clock: Arc<dyn Clock>,
    rules: Rules,
    permit_ids: Arc<PermitIds>,
    /// How many replicas share the store.
    replicas: NonZeroU32,
    monitor: Arc<StoreMonitor>,
}

/// Omits the two stores that `store` shows already.
impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("store", &self.store)
            .field("rules", &self.rules)
            .field("replicas", &self.replicas)
            .field("monitor", &self.monitor)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Reports to the monitor that the store has replied, if an outcome came from the store.
    #[inline]
    fn record_reply(&self, reply: &SpendReply) {
        if reply.sources.has_store(reply.outcomes.len()) {
            self.monitor.record_success(&*self.clock);
        }
    }

    /// Counts the error of a store call other than a check, for which there is no fallback.
    fn count_error<T>(&self, result: Result<T, StoreError>) -> Result<T, Error> {
        result
            .inspect_err(|error| self.monitor.count_error(error))
            .map_err(Error::from)
    }
}

impl Limiter {
    /// Creates a limiter with these limits on a new memory store.
    ///
    /// An invalid limit (see [`LimitError`](crate::LimitError)) makes each of its checks return the
    /// error. To detect it at startup instead, use [`builder`](Self::builder).
    pub fn in_memory(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::new(MemoryStore::new(), limits)
    }

    /// Creates a limiter with these limits on a store. Invalid limits are treated as in
    /// [`in_memory`](Self::in_memory).
    pub fn new(store: impl Store + 'static, limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::builder()
            .store(store)
            .limits(limits)
            .build_unvalidated()
    }

    /// Returns a builder to set the store, the clock and the limits. Its
    /// [`build`](LimiterBuilder::build) fails if a limit is invalid.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }

    /// Creates a limiter with other limits that shares the store, its health and the counters of
    /// this process: for a configuration that changes while requests are checked. Limits that keep
    /// their name, algorithm and window keep their counts; others start new counters.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let window = Duration::from_secs(60);
    /// let before = Limiter::in_memory([Limit::sliding_log("api", 100, window)]);
    /// assert_eq!(before.check("api", "ann").now_or_never()?.remaining(), 99);
    /// let after = before.with_limits([Limit::sliding_log("api", 50, window)], 1)?;
    /// assert_eq!(after.check("api", "ann").now_or_never()?.remaining(), 48);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn with_limits(
        &self,
        limits: impl IntoIterator<Item = Limit>,
        expected_replicas: u32,
    ) -> Result<Self, Error> {
        Self::builder()
            .limits(limits)
            .expected_replicas(expected_replicas)
            .build_sharing(self)
    }

    /// Starts a check without limits, to which limits are added with [`and`](Check::and): for
    /// callers that know the limits only at run time. A check without limits is allowed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::store::Intent;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
    /// let mut check = limiter.request(Intent::Spend);
    /// for (limit, key, cost) in [("api", "ann", 5)] {
    ///     check = check.and(limit, key).limit_cost(cost);
    /// }
    /// assert_eq!(check.now_or_never()?.remaining(), 95);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn request(&self, intent: Intent) -> Check<'_, DemandList<'_>> {
        Check::new(self, DemandList::default(), intent)
    }

    /// Starts a refund without limits, to which limits are added with [`and`](Refund::and).
    pub fn refund_request(&self) -> Refund<'_, DemandList<'_>> {
        Refund::new(self, DemandList::default())
    }

    /// Checks whether a request of `key` may pass a limit, and charges it if so. Await the check,
    /// or finish it with [`now_or_never`](Check::now_or_never),
    /// [`wait_up_to`](Check::wait_up_to) or [`acquire`](Check::acquire).
    #[inline]
    pub fn check<'a, K: ToKey>(&'a self, limit: &'a str, key: K) -> Check<'a, OneDemand<'a, K>> {
        Check::new(self, OneDemand::new(self.lookup(limit), key), Intent::Spend)
    }

    /// Like [`check`](Self::check), without charging anything.
    pub fn peek<'a, K: ToKey>(&'a self, limit: &'a str, key: K) -> Check<'a, OneDemand<'a, K>> {
        Check::new(self, OneDemand::new(self.lookup(limit), key), Intent::Peek)
    }

    /// Returns the units that a check has spent. If the store may have been unavailable during the
    /// check, see [`Refund::charged_by`].
    pub fn refund<'a, K: ToKey>(&'a self, limit: &'a str, key: K) -> Refund<'a, OneDemand<'a, K>> {
        Refund::new(self, OneDemand::new(self.lookup(limit), key))
    }

    /// Clears the counter of a key: the key's budget is full again.
    pub async fn reset(&self, limit: &str, key: impl ToKey) -> Result<(), Error> {
        let call = OneDemand::new(self.lookup(limit), key).with(self, |_, demands| {
            Ok(self.inner.store.reset(&demands[0].key))
        })?;
        self.inner.count_error(call.await)
    }

    /// Acquires a permit of a concurrency limit, which is released when dropped.
    pub async fn acquire(&self, limit: &str, key: impl ToKey) -> Result<Acquisition, Error> {
        self.check(limit, key).acquire().await
    }

    /// Releases a permit that a [`check`](Self::check) of a concurrency limit acquired; see
    /// [`Decision::permit_id`](crate::Decision::permit_id). Returns false if the permit has already
    /// ended. Permits acquired while the store was unavailable end when it is available again.
    pub async fn release(
        &self,
        limit: &str,
        key: impl ToKey,
        permit_id: PermitId,
    ) -> Result<bool, Error> {
        let mut demand = OneDemand::new(self.lookup(limit), key);
        // The permit's cost is not known here, which stores represent as cost 0.
        demand.set_cost(0);

        let call = demand.with(self, |_, demands| {
            let local = self.inner.monitor.local_fallback();
            let is_released = local.is_some_and(|local| local.release(&demands[0], permit_id));
            Ok(if is_released {
                StoreFuture::ready(Ok(true))
            } else {
                self.inner.store.release(&demands[0], permit_id)
            })
        })?;

        self.inner.count_error(call.await)
    }

    /// The health of the store as this limiter sees it, for metrics and readiness checks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
    /// let health = limiter.health();
    /// assert!(!health.degraded);
    /// for (kind, count) in health.store_errors.by_kind() {
    ///     println!("tollgate_store_errors_total{{kind={kind:?}}} {count}");
    /// }
    /// ```
    pub fn health(&self) -> Health {
        self.inner.monitor.health(self.inner.clock.now())
    }

    /// Returns the unspent units of [leased](crate::lease) limits to the store, and reports what
    /// eventual limits have counted since their last report. Call it before the process ends, so
    /// that nothing is lost.
    pub async fn return_leases(&self) -> Result<(), Error> {
        let result = self.inner.store.return_leases().await;
        self.inner.count_error(result)
    }

    /// The clock that waiting checks use.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// True when both are clones of the same limiter and so share all counters.
    pub fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The number of counters kept in this process for limits whose
    /// [`Consistency`](crate::Consistency) is `Local`. For the counters of a memory store, see
    /// [`MemoryStore::keys`].
    pub fn local_keys(&self) -> usize {
        self.inner.local_store.as_ref().map_or(0, MemoryStore::keys)
    }

    /// Looks up a limit once, for callers that check it often.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
    /// let api = limiter.limit("api")?;
    /// assert!(api.check("user:42").now_or_never()?.is_allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn limit(&self, limit: &str) -> Result<LimitHandle<'_>, Error> {
        self.rule(limit).map(|rule| LimitHandle {
            limiter: self,
            rule,
        })
    }

    /// The rule of a limit, or an error if the limit is unknown or invalid.
    pub fn rule(&self, limit: &str) -> Result<&Rule, Error> {
        match self.inner.rules.get(limit) {
            Some(Ok(rule)) => Ok(rule),
            Some(Err(error)) => Err(Error::Limit {
                limit: limit.to_owned(),
                cause: error.clone(),
            }),
            None => Err(self.unknown_limit(limit)),
        }
    }

    /// Looks up a limit, and leaves the error message to [`rule`](Self::rule).
    #[inline]
    fn lookup<'a>(&'a self, limit: &'a str) -> RuleLookup<'a> {
        match self.inner.rules.get(limit) {
            Some(Ok(rule)) => Ok(rule),
            Some(Err(_)) | None => Err(limit),
        }
    }

    #[cold]
    fn unknown_limit(&self, limit: &str) -> Error {
        let mut names: Vec<&str> = self.inner.rules.names().collect();
        names.sort_unstable();

        let hidden = names.len().saturating_sub(SHOWN_NAMES_MAX);
        names.truncate(SHOWN_NAMES_MAX);
        let shown = names.join(", ");
        let known = match (shown.is_empty(), hidden) {
            (true, _) => "none".to_owned(),
            (false, 0) => shown,
            (false, _) => format!("{shown} and {hidden} more"),
        };

        Error::UnknownLimit {
            limit: limit.chars().take(80).collect(),
            known,
        }
    }
}

/// One limit of a [`Limiter`], looked up once. See [`Limiter::limit`].
#[derive(Clone, Copy, Debug)]
pub struct LimitHandle<'a> {
    limiter: &'a Limiter,
    rule: &'a Rule,
}

impl<'a> LimitHandle<'a> {
    /// Checks whether a request of `key` may pass this limit. See [`Limiter::check`].
    #[inline]
    pub fn check<K: ToKey>(&self, key: K) -> Check<'a, OneDemand<'a, K>> {
        let demand = OneDemand::new(Ok(self.rule), key);
        Check::new(self.limiter, demand, Intent::Spend)
    }

    /// Like [`check`](Self::check), without charging anything.
    pub fn peek<K: ToKey>(&self, key: K) -> Check<'a, OneDemand<'a, K>> {
        let demand = OneDemand::new(Ok(self.rule), key);
        Check::new(self.limiter, demand, Intent::Peek)
    }

    /// Returns the units that a check of this limit has spent. See [`Limiter::refund`].
    pub fn refund<K: ToKey>(&self, key: K) -> Refund<'a, OneDemand<'a, K>> {
        Refund::new(self.limiter, OneDemand::new(Ok(self.rule), key))
    }

    /// The limit's rule.
    pub const fn rule(&self) -> &'a Rule {
        self.rule
    }
}
