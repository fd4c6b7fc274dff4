//! Giving back what checks took.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Error;
use super::selection::Selection;
use crate::algorithm::Quota;
use crate::key::ToKey;
use crate::store::Answer;

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
pub struct Refund<'a> {
    selection: Selection<'a>,
}

impl<'a> Refund<'a> {
    pub(super) fn new(selection: Selection<'a>) -> Self {
        Self { selection }
    }

    /// Another limit to give back to.
    pub fn and(mut self, limit: &str, key: impl ToKey) -> Self {
        self.selection.add(limit, key);
        self
    }

    /// How much to give back to every limit named so far, instead of 1.
    pub fn cost(mut self, cost: u64) -> Self {
        self.selection.cost(cost);
        self
    }

    /// How much to give back to the limit named last.
    pub fn own_cost(mut self, cost: u64) -> Self {
        self.selection.last_cost(cost);
        self
    }

    /// The numbers the check was made with, if they were not the limit's own.
    pub fn quota(mut self, quota: impl Into<Quota>) -> Self {
        self.selection.last_quota(quota.into());
        self
    }

    fn put(&mut self) -> Result<Answer<'a, ()>, Error> {
        self.selection.take_error()?;
        let mut checks = self.selection.rules().iter().zip(self.selection.checks());
        if let Some((rule, _)) = checks.find(|(_, check)| matches!(check.quota, Quota::Concurrency(_))) {
            return Err(Error::RefundInFlight { limit: rule.name().to_string() });
        }
        Ok(self.selection.limiter().inner.store.refund(self.selection.checks()))
    }
}

impl<'a> IntoFuture for Refund<'a> {
    type Output = Result<(), Error>;
    type IntoFuture = Refunding<'a>;

    fn into_future(self) -> Refunding<'a> {
        Refunding { refund: self, answer: None }
    }
}

/// A [`Refund`] under way.
#[derive(Debug)]
pub struct Refunding<'a> {
    refund: Refund<'a>,
    answer: Option<Answer<'a, ()>>,
}

impl Future for Refunding<'_> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let answer = match &mut this.answer {
            Some(answer) => answer,
            None => this.answer.insert(this.refund.put()?),
        };
        Pin::new(answer).poll(context).map_err(Error::from)
    }
}
