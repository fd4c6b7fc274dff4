//! A question being put together, and the ways to have it answered.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::permit::{Acquired, Permit};
use super::selection::Selection;
use super::{Error, Limiter};
use crate::algorithm::{LeaseId, Quota};
use crate::decision::{Decision, Retry};
use crate::key::ToKey;
use crate::store::{Answer, Intent, Spent};
use crate::time::Micros;

/// A question to a [`Limiter`]. Await it for the decision.
#[derive(Debug)]
#[must_use = "a question does nothing until it is awaited"]
pub struct Ask<'a> {
    selection: Selection<'a>,
    intent: Intent,
}

impl<'a> Ask<'a> {
    #[inline]
    pub(super) fn new(selection: Selection<'a>, intent: Intent) -> Self {
        Self { selection, intent }
    }

    /// Names another limit that must let the request pass too. All pass, or none is charged.
    pub fn and(mut self, limit: &str, key: impl ToKey) -> Self {
        self.selection.add(limit, key);
        self
    }

    /// What the request costs in every limit named so far, instead of 1. Cost 0 only looks.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Self {
        self.selection.cost(cost);
        self
    }

    /// What the request costs in the limit named last.
    pub fn own_cost(mut self, cost: u64) -> Self {
        self.selection.last_cost(cost);
        self
    }

    /// Other numbers for the limit named last, such as those of the caller's tier. They must be of the limit's own
    /// algorithm and window; what the key has used so far carries over.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::in_memory([Limit::token_bucket("plan", 100, Rate::per_second(10))]);
    /// let pro = TokenBucket::new(1_000, Rate::per_second(100))?;
    /// let decision = limiter.check("plan", "key-7f3a").quota(pro).immediately()?;
    /// assert_eq!(decision.remaining(), 999);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quota(mut self, quota: impl Into<Quota>) -> Self {
        self.selection.last_quota(quota.into());
        self
    }

    /// The decision, without an executor. Only stores that keep everything in this process can answer so.
    #[inline]
    pub fn immediately(mut self) -> Result<Decision, Error> {
        let (answer, lease) = self.put()?;
        match answer {
            Answer::Ready(Some(spent)) => Ok(self.selection.decide(&spent?.outcomes, lease)),
            Answer::Ready(None) | Answer::Pending(_) => Err(Error::NotImmediate),
        }
    }

    /// The decision, waiting until it is a pass or until `deadline` has gone by. For a queue this includes the wait for
    /// one's turn: once this answers with a pass, go. A pass whose turn would come too late is given back. When nothing
    /// that can be waited for helps, the answer is the denial, at once.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter, Rate};
    ///
    /// let outgoing = Limiter::in_memory([Limit::queue("partner-api", 50, Rate::per_second(1_000))]);
    /// for _ in 0..3 {
    ///     let decision = outgoing.check("partner-api", ()).wait_up_to(Duration::from_secs(2)).await?;
    ///     assert!(decision.is_allowed());
    ///     // call the partner
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn wait_up_to(mut self, deadline: Duration) -> Result<Decision, Error> {
        self.wait(deadline).await
    }

    /// Takes the places that the request's concurrency limits give, held until the permit is dropped.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    /// use tollgate::limiter::Acquired;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::concurrency("in-flight", 20, Duration::from_secs(30))]);
    /// match limiter.check("in-flight", "tenant:7").hold().await? {
    ///     Acquired::Held(permit) => drop(permit), // work first
    ///     Acquired::Denied(decision) => println!("busy: {:?}", decision.retry_after()),
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn hold(self) -> Result<Acquired, Error> {
        self.hold_up_to(Duration::ZERO).await
    }

    /// Like [`hold`](Self::hold), waiting for a place until `deadline` has gone by. Places are looked for when a lease
    /// runs out, and every 10 ms in case one is given back early.
    pub async fn hold_up_to(mut self, deadline: Duration) -> Result<Acquired, Error> {
        self.selection.take_error()?;
        if !self.selection.holds() {
            return Err(Error::NothingToHold);
        }
        let decision = self.wait(deadline).await?;
        Ok(match decision.lease() {
            Some(lease) => Acquired::Held(Permit::new(self.selection, lease, decision)),
            None => Acquired::Denied(decision),
        })
    }

    async fn wait(&mut self, deadline: Duration) -> Result<Decision, Error> {
        let clock = self.limiter().inner.clock.clone();
        let deadline = clock.now().after(Micros::from_duration_ceil(deadline).unwrap_or(Micros::MAX));
        loop {
            let (answer, lease) = self.put()?;
            let decision = self.selection.decide(&answer.await?.outcomes, lease);
            let left = Duration::from(deadline.since(clock.now()));
            match decision.retry() {
                Some(Retry::After(pause)) => {
                    // A place in flight may be given back at any time; everything else keeps to its word.
                    let pause = if self.selection.holds() { pause.min(PLACE_POLL) } else { pause };
                    if pause > left || self.intent == Intent::Peek {
                        return Ok(decision);
                    }
                    clock.sleep(Micros::from_duration_ceil(pause).unwrap_or(Micros::MAX)).await;
                }
                Some(Retry::Never) => return Ok(decision),
                None if decision.wait() > left => return self.give_up_turn(decision).await,
                None => {
                    let turn = Micros::from_duration_ceil(decision.wait()).unwrap_or(Micros::MAX);
                    if turn > Micros::ZERO && self.intent == Intent::Spend {
                        clock.sleep(turn).await;
                    }
                    return Ok(decision);
                }
            }
        }
    }

    /// Gives back a turn that would come after the deadline, and answers that it would have.
    async fn give_up_turn(&mut self, decision: Decision) -> Result<Decision, Error> {
        let store = &self.limiter().inner.store;
        if self.intent == Intent::Spend {
            store.refund(self.selection.checks()).await?;
            if let Some(lease) = decision.lease() {
                for check in self.selection.checks() {
                    store.release(check, lease).await?;
                }
            }
        }
        Ok(decision.turned_late())
    }

    fn limiter(&self) -> &'a Limiter {
        self.selection.limiter()
    }

    /// Puts the question to the store.
    #[inline]
    fn put(&mut self) -> Result<(Answer<'a, Spent>, Option<LeaseId>), Error> {
        self.selection.take_error()?;
        let inner = &self.limiter().inner;
        let holds = self.intent == Intent::Spend && self.selection.holds();
        let lease = holds.then(|| inner.lease_ids.next());
        let answer = inner.store.spend(self.selection.checks(), self.intent, lease.unwrap_or(LeaseId::NONE));
        Ok((answer, lease))
    }
}

/// How often to look for a place that was given back before its lease ran out.
const PLACE_POLL: Duration = Duration::from_millis(10);

impl<'a> IntoFuture for Ask<'a> {
    type Output = Result<Decision, Error>;
    type IntoFuture = Asking<'a>;

    fn into_future(self) -> Asking<'a> {
        Asking { ask: self, put: None }
    }
}

/// An [`Ask`] being answered. On the memory store it is ready at once and allocates nothing.
#[derive(Debug)]
pub struct Asking<'a> {
    ask: Ask<'a>,
    put: Option<(Answer<'a, Spent>, Option<LeaseId>)>,
}

impl Future for Asking<'_> {
    type Output = Result<Decision, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let (answer, lease) = match &mut this.put {
            Some(put) => put,
            None => this.put.insert(this.ask.put()?),
        };
        let spent = ready!(Pin::new(answer).poll(context))?;
        Poll::Ready(Ok(this.ask.selection.decide(&spent.outcomes, *lease)))
    }
}
