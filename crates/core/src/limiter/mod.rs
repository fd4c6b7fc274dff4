//! The limiter: names to rules, checks to one spend, outcomes to a decision.

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

use self::demands::Found;
use self::failure::Watch;
use self::permit_ids::PermitIds;
use self::rules::Rules;
use crate::algorithm::PermitId;
use crate::clock::Clock;
use crate::key::ToKey;
use crate::limit::{Limit, Rule};
use crate::memory::MemoryStore;
use crate::store::{Intent, SpendReply, Store, StoreError, StoreFuture};

/// Decides about requests: limits by name, on one store. Clones share everything.
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
/// // Both pass, or neither is charged.
/// let decision = limiter.check("per-user", "ann").and("per-tenant", "acme").cost(5).await?;
/// if !decision.is_allowed() {
///     let by = decision.denied_by().map_or("", |limit| limit.name());
///     println!("refused by {by}, try again in {:?}", decision.retry_after());
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
    /// Where counters live, those of this process included.
    store: Arc<dyn Store>,
    /// Where shared counters live.
    shared: Arc<dyn Store>,
    /// The counters of this process, if a limit asks for that.
    own: Option<MemoryStore>,
    clock: Arc<dyn Clock>,
    rules: Rules,
    permit_ids: Arc<PermitIds>,
    /// How many processes share the store.
    replicas: NonZeroU32,
    watch: Arc<Watch>,
}

/// Without what stands twice.
impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            store,
            rules,
            replicas,
            watch,
            ..
        } = self;
        let mut shown = f.debug_struct("Inner");
        shown
            .field("store", store)
            .field("rules", rules)
            .field("replicas", replicas)
            .field("watch", watch);
        shown.finish_non_exhaustive()
    }
}

impl Inner {
    /// Notes that the store has answered, if it was the store.
    #[inline]
    fn heard(&self, spent: &SpendReply) {
        if spent.sources.has_store(spent.outcomes.len()) {
            self.watch.answered(&*self.clock);
        }
    }

    /// The answer to anything but a check, for which no policy stands in.
    fn noted<T>(&self, answer: Result<T, StoreError>) -> Result<T, Error> {
        answer
            .inspect_err(|error| self.watch.count(error))
            .map_err(Error::from)
    }
}

impl Limiter {
    /// These limits on a new memory store.
    ///
    /// A limit that is wrong (see [`LimitError`](crate::LimitError)) answers each of its checks
    /// with what is wrong. To learn of it at the start instead, use [`builder`](Self::builder).
    pub fn in_memory(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::new(MemoryStore::new(), limits)
    }

    /// These limits on any store; wrong limits as for [`in_memory`](Self::in_memory).
    pub fn new(store: impl Store + 'static, limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::builder()
            .store(store)
            .limits(limits)
            .build_with_errors()
    }

    /// Choose the store, the clock and the limits, and learn at once if a limit is wrong.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }

    /// The same store, its health and the counters of this process, with other limits: for a
    /// configuration that changes while requests are being decided. Limits that keep their name,
    /// algorithm and window keep their counts; a window or an algorithm that changes begins new
    /// ones.
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
            .build_like(self)
    }

    /// A question about as many limits as are named with [`and`](Ask::and), for callers that learn
    /// only at run time which those are. One that names none is allowed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::store::Intent;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
    /// let mut ask = limiter.request(Intent::Spend);
    /// for (limit, key, cost) in [("api", "ann", 5)] {
    ///     ask = ask.and(limit, key).limit_cost(cost);
    /// }
    /// assert_eq!(ask.now_or_never()?.remaining(), 95);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn request(&self, intent: Intent) -> Check<'_, DemandList<'_>> {
        Check::new(self, DemandList::default(), intent)
    }

    /// A refund for as many limits as are named with [`and`](Refund::and).
    pub fn refund_request(&self) -> Refund<'_, DemandList<'_>> {
        Refund::new(self, DemandList::default())
    }

    /// Asks whether a request of `key` may pass a limit, and charges it if so. Await it, or finish
    /// it with [`now_or_never`](Ask::now_or_never), [`wait_up_to`](Ask::wait_up_to) or
    /// [`hold`](Ask::hold).
    #[inline]
    pub fn check<'a, K: ToKey>(&'a self, limit: &'a str, key: K) -> Check<'a, OneDemand<'a, K>> {
        Check::new(self, OneDemand::new(self.find(limit), key), Intent::Spend)
    }

    /// The same question, charging nothing.
    pub fn peek<'a, K: ToKey>(&'a self, limit: &'a str, key: K) -> Check<'a, OneDemand<'a, K>> {
        Check::new(self, OneDemand::new(self.find(limit), key), Intent::Peek)
    }

    /// Gives back what a check took. See [`Refund::charged_by`] for checks that the store may not
    /// have answered.
    pub fn refund<'a, K: ToKey>(&'a self, limit: &'a str, key: K) -> Refund<'a, OneDemand<'a, K>> {
        Refund::new(self, OneDemand::new(self.find(limit), key))
    }

    /// Forgets what a key has used of a limit.
    pub async fn reset(&self, limit: &str, key: impl ToKey) -> Result<(), Error> {
        let answer = OneDemand::new(self.find(limit), key)
            .with(self, |_, checks| Ok(self.inner.store.reset(&checks[0].key)))?
            .await;
        self.inner.noted(answer)
    }

    /// Takes a place under a concurrency limit, held until the permit is dropped.
    pub async fn acquire(&self, limit: &str, key: impl ToKey) -> Result<Acquisition, Error> {
        self.check(limit, key).acquire().await
    }

    /// Ends a lease that a [`check`](Self::check) of a concurrency limit took; see
    /// [`Decision::lease`](crate::Decision::lease). False when it had already ended, as those taken
    /// while the store was away have when it is back.
    pub async fn release(
        &self,
        limit: &str,
        key: impl ToKey,
        lease: PermitId,
    ) -> Result<bool, Error> {
        let mut one = OneDemand::new(self.find(limit), key);
        // What the lease took is not known here.
        one.set_cost(0);
        let answer = one
            .with(self, |_, checks| {
                let local = self.inner.watch.local();
                let released = local.is_some_and(|local| local.release(&checks[0], lease));
                Ok(if released {
                    StoreFuture::ready(Ok(true))
                } else {
                    self.inner.store.release(&checks[0], lease)
                })
            })?
            .await;
        self.inner.noted(answer)
    }

    /// How this limiter gets on with its store, for metrics and for whoever asks whether it can
    /// decide.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, Duration::from_secs(60))]);
    /// let health = limiter.health();
    /// assert!(!health.degraded);
    /// for (kind, count) in health.store_errors.by_kind() {
    ///     println!("tollgate_store_errors_total{{kind={kind:?}}} {count}");
    /// }
    /// ```
    pub fn health(&self) -> Health {
        self.inner.watch.health(self.inner.clock.now())
    }

    /// Gives back what [leased](crate::lease) limits have taken and not spent, and tells what
    /// eventual ones have counted and not told: what a process does before it ends, so that nothing
    /// is lost with it.
    pub async fn return_leases(&self) -> Result<(), Error> {
        let answer = self.inner.store.return_leases().await;
        self.inner.noted(answer)
    }

    /// The clock that waiting goes by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// True when both are clones of one limiter, so that they count together.
    pub fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Counters kept in this process for limits whose [`Consistency`](crate::Consistency) is
    /// `Local`. Those of a memory store are counted by [`MemoryStore::keys`].
    pub fn local_keys(&self) -> usize {
        self.inner.own.as_ref().map_or(0, MemoryStore::keys)
    }

    /// A limit looked up once, for callers that decide about it all the time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, Duration::from_secs(60))]);
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

    /// The rule of a limit.
    pub fn rule(&self, limit: &str) -> Result<&Rule, Error> {
        match self.inner.rules.get(limit) {
            Some(Ok(rule)) => Ok(rule),
            Some(Err(wrong)) => Err(Error::Limit {
                limit: limit.to_owned(),
                cause: wrong.clone(),
            }),
            None => Err(self.unknown(limit)),
        }
    }

    #[inline]
    fn find<'a>(&'a self, limit: &'a str) -> Found<'a> {
        match self.inner.rules.get(limit) {
            Some(Ok(rule)) => Ok(rule),
            Some(Err(_)) | None => Err(limit),
        }
    }

    #[cold]
    fn unknown(&self, limit: &str) -> Error {
        let mut known: Vec<&str> = self.inner.rules.names().collect();
        known.sort_unstable();
        let shown = known.iter().take(8).copied().collect::<Vec<_>>().join(", ");
        let shown = if known.is_empty() {
            "none".to_owned()
        } else {
            shown
        };
        let known = if known.len() > 8 {
            format!("{shown} and {} more", known.len() - 8)
        } else {
            shown
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
    /// As [`Limiter::check`].
    #[inline]
    pub fn check<K: ToKey>(&self, key: K) -> Check<'a, OneDemand<'a, K>> {
        Check::new(
            self.limiter,
            OneDemand::new(Ok(self.rule), key),
            Intent::Spend,
        )
    }

    /// As [`Limiter::peek`].
    pub fn peek<K: ToKey>(&self, key: K) -> Check<'a, OneDemand<'a, K>> {
        Check::new(
            self.limiter,
            OneDemand::new(Ok(self.rule), key),
            Intent::Peek,
        )
    }

    /// As [`Limiter::refund`].
    pub fn refund<K: ToKey>(&self, key: K) -> Refund<'a, OneDemand<'a, K>> {
        Refund::new(self.limiter, OneDemand::new(Ok(self.rule), key))
    }

    /// The limit's rule.
    pub const fn rule(&self) -> &'a Rule {
        self.rule
    }
}
