//! Refunds: return the units that a check has spent.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::engine::Engine;
use super::error::Error;
use super::request::{DemandList, Demands, ExtendDemands, OneDemand};
use crate::algorithm::Quota;
use crate::decision::Decision;
use crate::key::ToKey;
use crate::store::StoreFuture;

/// Returns the units that a check has spent. It must have the same limits, keys and costs as the
/// check. Created by [`Limiter::refund`](crate::Limiter::refund); await it.
///
/// ```
/// # pollster::block_on(async {
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::sliding_log("login", 5, Duration::from_secs(900))])?;
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
    engine: &'a Engine,
    demands: D,
    /// True when the store was not charged, so the refund must do nothing.
    is_uncharged: bool,
}

impl<'a, D: ExtendDemands<'a>> Refund<'a, D> {
    /// Adds another limit to refund.
    pub fn and(self, limit: &'a str, key: impl ToKey) -> Refund<'a, DemandList<'a>> {
        let mut demands = self.demands.into_list();
        demands.add(OneDemand::new(self.engine.lookup(limit), key));
        Refund {
            engine: self.engine,
            demands,
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
        self.demands.set_last(Some(cost), None);
        self
    }

    /// Sets the quota that the check used for the limit added last. Defaults to the limit's own.
    pub fn quota(mut self, quota: impl Into<Quota>) -> Self {
        self.demands.set_last(None, Some(quota.into()));
        self
    }
}

impl<'a, D: Demands<'a>> Refund<'a, D> {
    pub(super) const fn new(engine: &'a Engine, demands: D) -> Self {
        Self {
            engine,
            demands,
            is_uncharged: false,
        }
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
    /// let limiter = Limiter::in_memory([Limit::sliding_log("login", 5, Duration::from_secs(60))])?;
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
        self.demands.with(&self.engine.rules, |demands| {
            let mut limits = demands.iter();
            let concurrency = limits.find(|demand| matches!(demand.quota(), Quota::Concurrency(_)));

            match concurrency {
                Some(demand) => Err(Error::RefundConcurrency {
                    limit: demand.limit.name().to_string(),
                }),
                None if self.is_uncharged => Ok(StoreFuture::ready(Ok(()))),
                None => Ok(self.engine.refund(demands)),
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

        let Refund {
            engine, demands, ..
        } = &this.refund;
        Pin::new(call)
            .poll(context)
            .map_err(|error| engine.record_request_error(error, demands))
    }
}
