//! Refunds: return the units that a check has spent.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::demands::{DemandList, Demands, OneDemand};
use super::{Error, Limiter};
use crate::algorithm::Quota;
use crate::decision::Decision;
use crate::key::ToKey;
use crate::store::StoreFuture;

/// Returns the units that a check has spent. It must have the same limits, keys and costs as the
/// check. Created by [`Limiter::refund`]; await it.
///
/// ```
/// # pollster::block_on(async {
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("login", 5, Duration::from_secs(900))]);
/// let decision = limiter.check("login", "ann").await?;
/// assert_eq!(decision.remaining(), 4);
///
/// // The password was right: do not count the attempt.
/// limiter.refund("login", "ann").await?;
/// assert_eq!(limiter.peek("login", "ann").cost(0).await?.remaining(), 5);
/// # Ok::<(), tollgate::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "a refund does nothing until it is awaited"]
pub struct Refund<'a, D> {
    limiter: &'a Limiter,
    demands: D,
    /// True when the store was not charged, so the refund must do nothing.
    is_uncharged: bool,
}

impl<'a, D: Demands<'a>> Refund<'a, D> {
    pub(super) const fn new(limiter: &'a Limiter, demands: D) -> Self {
        Self {
            limiter,
            demands,
            is_uncharged: false,
        }
    }

    /// Adds another limit to refund.
    pub fn and(self, limit: &'a str, key: impl ToKey) -> Refund<'a, DemandList<'a>> {
        let mut list = self.demands.into_list();
        list.add(&OneDemand::new(self.limiter.lookup(limit), key));
        Refund {
            limiter: self.limiter,
            demands: list,
            is_uncharged: self.is_uncharged,
        }
    }

    /// Sets how many units to return to every limit added so far. Defaults to 1.
    pub fn cost(mut self, cost: u64) -> Self {
        self.demands.set_cost(cost);
        self
    }

    /// Sets how many units to return to the limit added last.
    pub fn limit_cost(mut self, cost: u64) -> Self {
        if let Some(options) = self.demands.last_options() {
            options.cost = cost;
        }
        self
    }

    /// Sets the quota that the check used for the limit added last. Defaults to the limit's own.
    pub fn quota(mut self, quota: impl Into<Quota>) -> Self {
        if let Some(options) = self.demands.last_options() {
            options.quota = Some(quota.into());
        }
        self
    }

    /// Refunds only if `decision` was charged to the store. Otherwise another request's units would
    /// be returned. If the request was denied, or decided while the store was unavailable, the
    /// refund succeeds and does nothing; what was counted locally during an outage stays counted.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("login", 5, Duration::from_secs(60))]);
    /// let decision = limiter.check("login", "ann").await?;
    /// limiter.refund("login", "ann").charged_by(&decision).await?;
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn charged_by(mut self, decision: &Decision) -> Self {
        self.is_uncharged = decision.is_degraded() || !decision.is_allowed();
        self
    }

    fn start(&self) -> Result<StoreFuture<'a, ()>, Error> {
        self.demands.with(self.limiter, |rules, demands| {
            let mut pairs = rules.iter().zip(demands);
            let concurrency =
                pairs.find(|(_, demand)| matches!(demand.quota, Quota::Concurrency(_)));

            match concurrency {
                Some((rule, _)) => Err(Error::RefundConcurrency {
                    limit: rule.name().to_string(),
                }),
                None if self.is_uncharged || demands.is_empty() => Ok(StoreFuture::ready(Ok(()))),
                None => Ok(self.limiter.inner.store.refund(demands)),
            }
        })
    }
}

impl<'a, D: Demands<'a> + Unpin> IntoFuture for Refund<'a, D> {
    type Output = Result<(), Error>;
    type IntoFuture = RefundFuture<'a, D>;

    fn into_future(self) -> RefundFuture<'a, D> {
        RefundFuture {
            refund: self,
            call: None,
        }
    }
}

/// The future of a [`Refund`].
#[derive(Debug)]
pub struct RefundFuture<'a, D> {
    refund: Refund<'a, D>,
    /// The store call; `None` before the first poll.
    call: Option<StoreFuture<'a, ()>>,
}

impl<'a, D: Demands<'a> + Unpin> Future for RefundFuture<'a, D> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let call = match &mut this.call {
            Some(call) => call,
            None => this.call.insert(this.refund.start()?),
        };

        let inner = &this.refund.limiter.inner;
        Pin::new(call)
            .poll(context)
            .map(|result| inner.count_error(result))
    }
}
