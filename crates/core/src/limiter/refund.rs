//! Giving back what checks took.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::demands::{DemandList, Demands, OneDemand};
use super::{Error, Limiter};
use crate::algorithm::Quota;
use crate::decision::Decision;
use crate::key::ToKey;
use crate::store::StoreFuture;

/// Gives back what a check took: the same limits, keys and cost. Await it.
///
/// ```
/// # pollster::block_on(async {
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("login", 5, Duration::from_secs(900))]);
/// let decision = limiter.check("login", "ann").await?;
/// assert_eq!(decision.remaining(), 4);
/// limiter.refund("login", "ann").await?; // the password was right: do not count it
/// assert_eq!(limiter.peek("login", "ann").cost(0).await?.remaining(), 5);
/// # Ok::<(), tollgate::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "a refund does nothing until it is awaited"]
pub struct Refund<'a, S> {
    limiter: &'a Limiter,
    select: S,
    /// The check was not charged to the store, so that nothing may be given back there.
    untaken: bool,
}

impl<'a, S: Demands<'a>> Refund<'a, S> {
    pub(super) const fn new(limiter: &'a Limiter, select: S) -> Self {
        Self {
            limiter,
            select,
            untaken: false,
        }
    }

    /// Another limit to give back to.
    pub fn and(self, limit: &'a str, key: impl ToKey) -> Refund<'a, DemandList<'a>> {
        let mut many = self.select.into_many();
        many.add(&OneDemand::new(self.limiter.find(limit), key));
        Refund {
            limiter: self.limiter,
            select: many,
            untaken: self.untaken,
        }
    }

    /// How much to give back to every limit named so far, instead of 1.
    pub fn cost(mut self, cost: u64) -> Self {
        self.select.set_cost(cost);
        self
    }

    /// How much to give back to the limit named last.
    pub fn limit_cost(mut self, cost: u64) -> Self {
        if let Some(wish) = self.select.last() {
            wish.cost = cost;
        }
        self
    }

    /// The numbers the check was made with, if they were not the limit's own.
    pub fn quota(mut self, quota: impl Into<Quota>) -> Self {
        if let Some(wish) = self.select.last() {
            wish.quota = Some(quota.into());
        }
        self
    }

    /// The decision that took it. What the store did not take is not given back to it, or someone
    /// would have it twice: a decision made while the store was away, or a denial, makes this
    /// refund do nothing and succeed. What was counted in this process meanwhile stays counted.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("login", 5, Duration::from_secs(900))]);
    /// let decision = limiter.check("login", "ann").await?;
    /// limiter.refund("login", "ann").charged_by(&decision).await?;
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn charged_by(mut self, decision: &Decision) -> Self {
        self.untaken = decision.is_degraded() || !decision.is_allowed();
        self
    }

    fn put(&self) -> Result<StoreFuture<'a, ()>, Error> {
        self.select.with(self.limiter, |rules, checks| {
            let mut both = rules.iter().zip(checks);
            match both.find(|(_, check)| matches!(check.quota, Quota::Concurrency(_))) {
                Some((rule, _)) => Err(Error::RefundConcurrency {
                    limit: rule.name().to_string(),
                }),
                None if self.untaken || checks.is_empty() => Ok(StoreFuture::ready(Ok(()))),
                None => Ok(self.limiter.inner.store.refund(checks)),
            }
        })
    }
}

impl<'a, S: Demands<'a> + Unpin> IntoFuture for Refund<'a, S> {
    type Output = Result<(), Error>;
    type IntoFuture = RefundFuture<'a, S>;

    fn into_future(self) -> RefundFuture<'a, S> {
        RefundFuture {
            refund: self,
            answer: None,
        }
    }
}

/// A [`Refund`] under way.
#[derive(Debug)]
pub struct RefundFuture<'a, S> {
    refund: Refund<'a, S>,
    answer: Option<StoreFuture<'a, ()>>,
}

impl<'a, S: Demands<'a> + Unpin> Future for RefundFuture<'a, S> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let answer = match &mut this.answer {
            Some(answer) => answer,
            None => this.answer.insert(this.refund.put()?),
        };
        let inner = &this.refund.limiter.inner;
        Pin::new(answer)
            .poll(context)
            .map(|answer| inner.noted(answer))
    }
}
