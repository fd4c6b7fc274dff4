//! The limiter's interface: limits by name, by handle, or as a list of demands.

use std::sync::Arc;

use super::builder::LimiterBuilder;
use super::check::Check;
use super::engine::Engine;
use super::error::Error;
use super::failure::Health;
use super::handle::LimitHandle;
use super::permit::Acquisition;
use super::refund::Refund;
use super::request::OneDemand;
use super::reservation::Reserve;
use crate::algorithm::PermitId;
use crate::clock::Clock;
use crate::demand::Demand;
use crate::key::{EncodedKey, ToKey};
use crate::limit::{Limit, Rule};
use crate::memory::MemoryStore;
use crate::store::{Ending, Intent, SettleReply, Settlement, Store};

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
/// ])?;
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
    engine: Arc<Engine>,
}

impl LimiterBuilder {
    /// Builds the limiter. Fails if the number of replicas is 0, a limit is invalid, or two limits
    /// have the same name.
    pub fn build(self) -> Result<Limiter, Error> {
        self.build_engine().map(Limiter::from_engine)
    }
}

impl Limiter {
    /// Creates a limiter with these limits on a new memory store. Fails if a limit is invalid (see
    /// [`LimitError`](crate::LimitError)) or two limits have the same name.
    pub fn in_memory(limits: impl IntoIterator<Item = Limit>) -> Result<Self, Error> {
        Self::new(MemoryStore::new(), limits)
    }

    /// Creates a limiter with these limits on a store. Fails like [`in_memory`](Self::in_memory).
    pub fn new(
        store: impl Store + 'static,
        limits: impl IntoIterator<Item = Limit>,
    ) -> Result<Self, Error> {
        Self::builder().store(store).limits(limits).build()
    }

    fn from_engine(engine: Engine) -> Self {
        Self {
            engine: Arc::new(engine),
        }
    }

    /// Returns a builder to set the store, the clock and the limits.
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
    /// let before = Limiter::in_memory([Limit::sliding_log("api", 100, window)])?;
    /// assert_eq!(before.check("api", "ann").try_now()?.remaining(), 99);
    /// let after = before.with_limits([Limit::sliding_log("api", 50, window)], 1)?;
    /// assert_eq!(after.check("api", "ann").try_now()?.remaining(), 48);
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
            .build_sharing(&self.engine)
            .map(Self::from_engine)
    }

    /// Decides about a list of demands: all of them are charged, or none. For callers that look up
    /// their limits in advance, and know only at run time which of them apply. The limits need not
    /// be those of this limiter. A request without demands is allowed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::store::Intent;
    /// use tollgate::{Demand, EncodedKey, Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
    /// let api = limiter.rule("api")?;
    ///
    /// let demands = [Demand::new(api, EncodedKey::new("ann")?).with_cost(5)];
    /// assert_eq!(limiter.request(&demands, Intent::Spend).try_now()?.remaining(), 95);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn request<'a>(
        &'a self,
        demands: &'a [Demand<'a, EncodedKey>],
        intent: Intent,
    ) -> Check<'a, &'a [Demand<'a, EncodedKey>]> {
        Check::new(&self.engine, demands, intent)
    }

    /// Decides about one demand, as [`request`](Self::request) does about a list of them. The key
    /// may be of any kind.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::store::Intent;
    /// use tollgate::{Demand, Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
    /// let demand = Demand::new(limiter.rule("api")?, "ann").with_cost(5);
    /// assert_eq!(limiter.request_one(&demand, Intent::Spend).try_now()?.remaining(), 95);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    pub const fn request_one<'a, K: ToKey>(
        &'a self,
        demand: &'a Demand<'a, K>,
        intent: Intent,
    ) -> Check<'a, &'a Demand<'a, K>> {
        Check::new(&self.engine, demand, intent)
    }

    /// Returns the units that a [`request`](Self::request) has spent.
    pub fn refund_request<'a>(
        &'a self,
        demands: &'a [Demand<'a, EncodedKey>],
    ) -> Refund<'a, &'a [Demand<'a, EncodedKey>]> {
        Refund::new(&self.engine, demands)
    }

    /// Checks whether a request of `key` may pass a limit, and charges it if so. Await the check,
    /// or finish it with [`try_now`](Check::try_now), [`wait_up_to`](Check::wait_up_to) or
    /// [`acquire`](Check::acquire).
    #[inline]
    pub fn check<'a, K: ToKey>(&'a self, limit: &'a str, key: K) -> Check<'a, OneDemand<'a, K>> {
        self.lookup(limit).check(key)
    }

    /// Like [`check`](Self::check), without charging anything.
    pub fn peek<'a, K: ToKey>(&'a self, limit: &'a str, key: K) -> Check<'a, OneDemand<'a, K>> {
        self.lookup(limit).peek(key)
    }

    /// Charges a request whether it fits or not, for costs that are known only after the work is
    /// done. The decision says whether it fitted. A counter that was charged more than its limit
    /// owes the rest, up to [`Limit::debt_max`]: nothing remains, and the retry time of a check
    /// includes the debt. While the store is unavailable, the limit's
    /// [failure policy](crate::FailurePolicy) decides, and only `Local` counts.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Rate};
    ///
    /// let limiter = Limiter::in_memory([Limit::token_bucket("bytes", 100, Rate::per_second(10))])?;
    /// let counted = limiter.count("bytes", "ann").cost(130).try_now()?;
    /// assert!(!counted.is_allowed());
    ///
    /// // 30 units of debt and the unit itself take 3.1 seconds.
    /// let decision = limiter.check("bytes", "ann").try_now()?;
    /// assert_eq!(decision.retry_after().map(|time| time.as_millis().div_ceil(100)), Some(31));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn count<'a, K: ToKey>(&'a self, limit: &'a str, key: K) -> Check<'a, OneDemand<'a, K>> {
        self.lookup(limit).count(key)
    }

    /// Charges an estimate, for work whose cost is known only when it is done, such as the tokens of
    /// a language model. [Settle](crate::Reservation::settle) it with the actual cost. If the store
    /// is unavailable, the limits' [failure policies](crate::FailurePolicy) decide, and settling
    /// charges the actual cost as it is.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let minute = Duration::from_secs(60);
    /// let limiter = Limiter::in_memory([
    ///     Limit::fixed_window("tokens", 1_000, minute),
    ///     Limit::fixed_window("requests", 10, minute),
    /// ])?;
    ///
    /// let reservation = limiter.reserve("tokens", "ann").cost(400).and("requests", "ann").await?;
    /// if reservation.is_allowed() {
    ///     // Call the model, then charge what it used.
    ///     reservation.settle(130).await?;
    /// }
    /// assert_eq!(limiter.peek("tokens", "ann").cost(0).await?.remaining(), 870);
    /// assert_eq!(limiter.peek("requests", "ann").cost(0).await?.remaining(), 9);
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn reserve<'a, K: ToKey>(&'a self, limit: &'a str, key: K) -> Reserve<'a> {
        self.lookup(limit).reserve(key)
    }

    /// Ends a [`request`](Self::request) that was made with [`Intent::Reserve`]. Each demand must be
    /// as it was reserved. The first end of a reservation counts, see [`Store::settle`]. The replies
    /// are in the order of the settlements.
    pub async fn settle_request(
        &self,
        settlements: &[Settlement<'_>],
        ending: Ending,
    ) -> Result<Vec<SettleReply>, Error> {
        self.engine.settle(settlements, ending).await
    }

    /// Returns the units that a check has spent. If the store may have been unavailable during the
    /// check, see [`Refund::charged_by`].
    pub fn refund<'a, K: ToKey>(&'a self, limit: &'a str, key: K) -> Refund<'a, OneDemand<'a, K>> {
        self.lookup(limit).refund(key)
    }

    /// Clears the counter of a key: the key's budget is full again.
    pub async fn reset(&self, limit: &str, key: impl ToKey) -> Result<(), Error> {
        self.lookup(limit).reset(key).await
    }

    /// Acquires a permit of a concurrency limit, which is released when dropped.
    pub async fn acquire(&self, limit: &str, key: impl ToKey) -> Result<Acquisition, Error> {
        self.lookup(limit).acquire(key).await
    }

    /// Releases a permit that a [`check`](Self::check) of a concurrency limit acquired; see
    /// [`Decision::permit_id`](crate::Decision::permit_id). Returns false if the permit has already
    /// ended.
    pub async fn release(
        &self,
        limit: &str,
        key: impl ToKey,
        permit_id: PermitId,
    ) -> Result<bool, Error> {
        self.lookup(limit).release(key, permit_id).await
    }

    /// The health of the store as this limiter sees it, for metrics and readiness checks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
    /// let health = limiter.health();
    /// assert!(!health.degraded);
    /// for (kind, count) in health.store_errors.by_kind() {
    ///     println!("tollgate_store_errors_total{{kind={kind:?}}} {count}");
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn health(&self) -> Health {
        self.engine.monitor.health(self.engine.clock.now())
    }

    /// Returns the unspent units of [leased](crate::store::lease) limits to the store, and reports what
    /// eventual limits have counted since their last report. Call it before the process ends, so
    /// that nothing is lost.
    pub async fn return_leases(&self) -> Result<(), Error> {
        let result = self.engine.shared.return_leases().await;
        result.map_err(|error| self.engine.record_error(error, &[]))
    }

    /// The clock that waiting checks use.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.engine.clock
    }

    /// True when both are clones of the same limiter and so share all counters.
    pub fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.engine, &other.engine)
    }

    /// The number of counters kept in this process for limits whose
    /// [`Consistency`](crate::Consistency) is `Local`. For the counters of a memory store, see
    /// [`MemoryStore::keys`].
    pub fn local_keys(&self) -> usize {
        self.engine.local.get().map_or(0, MemoryStore::keys)
    }

    /// Looks up a limit once, for callers that check it often.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
    /// let api = limiter.limit("api")?;
    /// assert!(api.check("user:42").try_now()?.is_allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn limit<'a>(&'a self, limit: &'a str) -> Result<LimitHandle<'a>, Error> {
        Ok(self.with_rule(self.rule(limit)?))
    }

    /// A limit that need not be one of this limiter's, on this limiter's store.
    #[inline]
    pub const fn with_rule<'a>(&'a self, rule: &'a Rule) -> LimitHandle<'a> {
        LimitHandle::new(&self.engine, Ok(rule))
    }

    /// The rule of a limit, or an error if the limit is unknown.
    pub fn rule(&self, limit: &str) -> Result<&Rule, Error> {
        let rule = self.engine.rules.get(limit);
        rule.ok_or_else(|| self.engine.rules.unknown(limit))
    }

    #[inline]
    fn lookup<'a>(&'a self, limit: &'a str) -> LimitHandle<'a> {
        LimitHandle::new(&self.engine, self.engine.lookup(limit))
    }
}
