//! The limiter: names to rules, checks to one spend, outcomes to a decision.

mod ask;
mod builder;
mod error;
mod lease_ids;
mod permit;
mod refund;
mod selection;

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

pub use ask::{Ask, Asking};
pub use builder::LimiterBuilder;
pub use error::Error;
pub use permit::{Acquired, Permit};
pub use refund::{Refund, Refunding};

use self::lease_ids::LeaseIds;
use self::selection::Selection;
use crate::algorithm::LeaseId;
use crate::clock::Clock;
use crate::key::ToKey;
use crate::limit::{Limit, LimitError, Rule};
use crate::memory::MemoryStore;
use crate::store::{Intent, Store};

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

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    rules: HashMap<Box<str>, Result<Rule, LimitError>, RandomState>,
    lease_ids: LeaseIds,
}

impl Limiter {
    /// These limits on a new memory store.
    ///
    /// A limit that is wrong (see [`LimitError`]) answers each of its checks with what is wrong. To learn of it at the
    /// start instead, use [`builder`](Self::builder).
    pub fn in_memory(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::new(MemoryStore::new(), limits)
    }

    /// These limits on any store; wrong limits as for [`in_memory`](Self::in_memory).
    pub fn new(store: impl Store + 'static, limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::builder().store(store).limits(limits).build_with_errors()
    }

    /// Choose the store, the clock and the limits, and learn at once if a limit is wrong.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }

    /// Asks whether a request of `key` may pass a limit, and charges it if so. Await it, or finish it with
    /// [`immediately`](Ask::immediately), [`wait_up_to`](Ask::wait_up_to) or [`hold`](Ask::hold).
    #[inline]
    pub fn check(&self, limit: &str, key: impl ToKey) -> Ask<'_> {
        Ask::new(self.select(limit, key), Intent::Spend)
    }

    /// The same question, charging nothing.
    pub fn peek(&self, limit: &str, key: impl ToKey) -> Ask<'_> {
        Ask::new(self.select(limit, key), Intent::Peek)
    }

    /// Gives back what a check took.
    pub fn refund(&self, limit: &str, key: impl ToKey) -> Refund<'_> {
        Refund::new(self.select(limit, key))
    }

    /// Forgets what a key has used of a limit.
    pub async fn reset(&self, limit: &str, key: impl ToKey) -> Result<(), Error> {
        let checks = self.select(limit, key).into_checks()?;
        for check in &checks {
            self.inner.store.reset(&check.key).await?;
        }
        Ok(())
    }

    /// Takes a place under a concurrency limit, held until the permit is dropped.
    pub async fn acquire(&self, limit: &str, key: impl ToKey) -> Result<Acquired, Error> {
        self.check(limit, key).hold().await
    }

    /// Ends a lease that a [`check`](Self::check) of a concurrency limit took; see
    /// [`Decision::lease`](crate::Decision::lease). False when it had already ended.
    pub async fn release(&self, limit: &str, key: impl ToKey, lease: LeaseId) -> Result<bool, Error> {
        let mut released = false;
        for check in &self.select(limit, key).into_checks()? {
            released |= self.inner.store.release(check, lease).await?;
        }
        Ok(released)
    }

    /// The rule of a limit.
    pub fn rule(&self, limit: &str) -> Result<&Rule, Error> {
        match self.inner.rules.get(limit) {
            Some(Ok(rule)) => Ok(rule),
            Some(Err(wrong)) => Err(Error::Limit { limit: limit.to_owned(), source: wrong.clone() }),
            None => Err(self.unknown(limit)),
        }
    }

    #[inline]
    fn select(&self, limit: &str, key: impl ToKey) -> Selection<'_> {
        let mut selection = Selection::new(self);
        selection.add(limit, key);
        selection
    }

    #[cold]
    fn unknown(&self, limit: &str) -> Error {
        let mut known: Vec<&str> = self.inner.rules.keys().map(AsRef::as_ref).collect();
        known.sort_unstable();
        let shown = known.iter().take(8).copied().collect::<Vec<_>>().join(", ");
        let known = if known.len() > 8 { format!("{shown} and {} more", known.len() - 8) } else { shown };
        Error::UnknownLimit { limit: limit.chars().take(80).collect(), known }
    }
}
