//! Waiting: for a pass, for one's turn in a queue, for a place in flight.

use std::time::Duration;

use smallvec::SmallVec;

use super::Error;
use super::ask::{Ask, Put, holds};
use super::permit::{Acquired, Permit};
use super::select::Select;
use crate::algorithm::Quota;
use crate::decision::{Decision, Retry};
use crate::store::{Check, Intent};
use crate::time::Micros;

/// How often to look for a place that was given back before its lease ran out.
const PLACE_POLL: Duration = Duration::from_millis(10);

impl<'a, S: Select<'a>> Ask<'a, S> {
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
    pub async fn wait_up_to(self, deadline: Duration) -> Result<Decision, Error> {
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
    pub async fn hold_up_to(self, deadline: Duration) -> Result<Acquired, Error> {
        let is_peek = self.intent == Intent::Peek;
        if is_peek || !self.select.with(self.limiter, |_, checks| Ok(holds(checks)))? {
            return Err(Error::NothingToHold);
        }
        let decision = self.wait(deadline).await?;
        match decision.lease() {
            Some(lease) => self.select.with(self.limiter, |_, checks| {
                Ok(Acquired::Held(Permit::new(self.limiter, checks, lease, decision)))
            }),
            None => Ok(Acquired::Denied(decision)),
        }
    }

    async fn wait(&self, deadline: Duration) -> Result<Decision, Error> {
        let clock = &self.limiter.inner.clock;
        let deadline = clock.now().after(Micros::from_duration_ceil(deadline).unwrap_or(Micros::MAX));
        loop {
            let decision = match self.put()? {
                Put::Decided(decision) => decision,
                Put::Coming(coming) => self.decide(&coming.answer.await?, coming.lease)?,
            };
            let left = Duration::from(deadline.since(clock.now()));
            let pause = match decision.retry() {
                // A place in flight may be given back at any time; everything else keeps to its word.
                Some(Retry::After(pause)) if self.waits_for_places_only(&decision)? => pause.min(PLACE_POLL),
                Some(Retry::After(pause)) => pause,
                Some(Retry::Never) => return Ok(decision),
                None => return Ok(self.take_turn(decision, left).await),
            };
            if pause > left || self.intent == Intent::Peek {
                return Ok(decision);
            }
            clock.sleep(Micros::from_duration_ceil(pause).unwrap_or(Micros::MAX)).await;
        }
    }

    fn waits_for_places_only(&self, decision: &Decision) -> Result<bool, Error> {
        self.select.with(self.limiter, |_, checks| {
            let both = checks.iter().zip(decision.limits());
            let mut refusing = both.filter(|(_, status)| status.is_enforced_denial());
            Ok(refusing.all(|(check, _)| matches!(check.quota, Quota::Concurrency(_))))
        })
    }

    /// Waits for the turn that a queue gave, or gives it back when it would come too late, or when nobody waits for it
    /// any more.
    async fn take_turn(&self, decision: Decision, left: Duration) -> Decision {
        let turn = decision.wait();
        if turn.is_zero() || self.intent == Intent::Peek {
            return decision;
        }
        let mut pass = Pass { ask: self, decision: Some(decision) };
        if turn <= left {
            let clock = &self.limiter.inner.clock;
            clock.sleep(Micros::from_duration_ceil(turn).unwrap_or(Micros::MAX)).await;
            return pass.keep();
        }
        pass.give_back().turned_late()
    }
}

/// A pass that is given back unless it is kept.
struct Pass<'p, 'a, S: Select<'a>> {
    ask: &'p Ask<'a, S>,
    decision: Option<Decision>,
}

impl<'a, S: Select<'a>> Pass<'_, 'a, S> {
    fn keep(&mut self) -> Decision {
        self.decision.take().expect("a pass is kept or given back once")
    }

    /// Gives back what was charged: not what a shadow limit would have refused.
    fn give_back(&mut self) -> Decision {
        let decision = self.keep();
        let limiter = self.ask.limiter;
        let given_back = self.ask.select.with(limiter, |_, checks| {
            let both = checks.iter().zip(decision.limits());
            let charged = both.filter(|(_, status)| status.retry().is_none()).map(|(check, _)| *check);
            let charged: SmallVec<[Check<'_>; 4]> = charged.collect();
            // Refunds and releases take effect even when nobody waits for their answer.
            drop(limiter.inner.store.refund(&charged));
            if let Some(lease) = decision.lease() {
                charged.iter().for_each(|check| drop(limiter.inner.store.release(check, lease)));
            }
            Ok(())
        });
        debug_assert!(given_back.is_ok(), "the same checks have just been made");
        decision
    }
}

impl<'a, S: Select<'a>> Drop for Pass<'_, 'a, S> {
    fn drop(&mut self) {
        if self.decision.is_some() {
            drop(self.give_back());
        }
    }
}
