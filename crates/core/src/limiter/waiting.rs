//! Waiting: for a pass, for one's turn in a queue, for a place in flight.

use std::time::Duration;

use smallvec::SmallVec;

use super::Error;
use super::check::{Check, Put, holds};
use super::demands::Demands;
use super::failure::Settled;
use super::permit::{Acquisition, Permit};
use crate::algorithm::Quota;
use crate::decision::{Decision, Retry};
use crate::store::{Demand, Intent};
use crate::time::Micros;

/// How often to look for a place that was given back before its lease ran out.
const PLACE_POLL: Duration = Duration::from_millis(10);

/// How long to wait, and for what.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// For a denial to become a pass.
    for_pass: Duration,
    /// For one's turn, once a queue has given it.
    for_turn: Duration,
}

impl Patience {
    const fn up_to(deadline: Duration) -> Self {
        Self {
            for_pass: deadline,
            for_turn: deadline,
        }
    }

    /// No longer than the queues themselves make one wait.
    const TURN: Self = Self {
        for_pass: Duration::ZERO,
        for_turn: Duration::MAX,
    };
}

impl<'a, S: Demands<'a>> Check<'a, S> {
    /// The decision, waiting until it is a pass or until `deadline` has gone by. For a queue this
    /// includes the wait for one's turn: once this answers with a pass, go. A pass whose turn would
    /// come too late is given back. When nothing that can be waited for helps, the answer is the
    /// denial, at once; so it is when a limit refuses only because the store is away, which may
    /// stay so.
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
        self.wait(Patience::up_to(deadline))
            .await
            .map(|settled| settled.decision)
    }

    /// The decision, and for a queue also the wait for one's turn: once this answers with a pass,
    /// go. A denial is told at once. Whoever stops waiting gives the turn back.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use tollgate::{Limit, Limiter, Rate};
    ///
    /// let limiter = Limiter::in_memory([Limit::queue("export", 3, Rate::per_second(1_000))]);
    /// assert!(limiter.check("export", "ann").wait_in_queue().await?.is_allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn wait_in_queue(self) -> Result<Decision, Error> {
        self.wait(Patience::TURN)
            .await
            .map(|settled| settled.decision)
    }

    /// Takes the places that the request's concurrency limits give, held until the permit is
    /// dropped.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    /// use tollgate::limiter::Acquisition;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::concurrency("in-flight", 20, Duration::from_secs(30))]);
    /// match limiter.check("in-flight", "tenant:7").hold().await? {
    ///     Acquisition::Held(permit) => drop(permit), // work first
    ///     Acquisition::Denied(decision) => println!("busy: {:?}", decision.retry_after()),
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn acquire(self) -> Result<Acquisition, Error> {
        self.acquire_up_to(Duration::ZERO).await
    }

    /// Like [`acquire`](Self::acquire), waiting for a place until `deadline` has gone by. Places are
    /// looked for when a lease runs out, and every 10 ms in case one is given back early.
    pub async fn acquire_up_to(self, deadline: Duration) -> Result<Acquisition, Error> {
        self.acquire_with(Patience::up_to(deadline)).await
    }

    /// Like [`acquire`](Self::acquire), waiting as [`wait_in_queue`](Self::wait_in_queue) does where a queue takes
    /// part.
    pub async fn acquire_in_queue(self) -> Result<Acquisition, Error> {
        self.acquire_with(Patience::TURN).await
    }

    async fn acquire_with(self, patience: Patience) -> Result<Acquisition, Error> {
        let is_peek = self.intent == Intent::Peek;
        if is_peek
            || !self
                .select
                .with(self.limiter, |_, checks| Ok(holds(checks)))?
        {
            return Err(Error::NoConcurrencyLimit);
        }
        let settled = self.wait(patience).await?;
        if !settled.decision.is_allowed() {
            return Ok(Acquisition::Denied(settled.decision));
        }
        self.select.with(self.limiter, |_, checks| {
            Ok(Acquisition::Held(Permit::new(
                self.limiter,
                checks,
                settled,
            )))
        })
    }

    async fn wait(&self, patience: Patience) -> Result<Settled, Error> {
        let clock = &self.limiter.inner.clock;
        let began = clock.now();
        let left = |most: Duration| most.saturating_sub(clock.now().since(began).into());
        loop {
            let settled = match self.put(|settled| settled)? {
                Put::Settled(settled) => settled,
                Put::Coming(mut coming) => {
                    let answer = (&mut coming.answer).await;
                    coming.came(&answer);
                    self.settle(answer, coming.lease)?
                }
            };
            let decision = &settled.decision;
            let pause = match decision.retry() {
                Some(Retry::Never) => return Ok(settled),
                // The store may be away for longer than anyone would wait.
                Some(_) if is_refused_by_policy(decision) => return Ok(settled),
                // A place in flight may be given back at any time; everything else keeps to its
                // word.
                Some(Retry::After(pause)) if self.waits_for_places_only(decision)? => {
                    pause.min(PLACE_POLL)
                }
                Some(Retry::After(pause)) => pause,
                None => return Ok(self.take_turn(settled, left(patience.for_turn)).await),
            };
            if pause > left(patience.for_pass) || self.intent == Intent::Peek {
                return Ok(settled);
            }
            clock
                .sleep(Micros::from_duration_ceil(pause).unwrap_or(Micros::MAX))
                .await;
        }
    }

    fn waits_for_places_only(&self, decision: &Decision) -> Result<bool, Error> {
        self.select.with(self.limiter, |_, checks| {
            let both = checks.iter().zip(decision.limits());
            let mut refusing = both.filter(|(_, status)| status.is_enforced_denial());
            Ok(refusing.all(|(check, _)| matches!(check.quota, Quota::Concurrency(_))))
        })
    }

    /// Waits for the turn that a queue gave, or gives it back when it would come too late, or when
    /// nobody waits for it any more.
    async fn take_turn(&self, settled: Settled, left: Duration) -> Settled {
        let turn = settled.decision.wait();
        if turn.is_zero() || self.intent == Intent::Peek {
            return settled;
        }
        let mut pass = Pass {
            ask: self,
            settled: Some(settled),
        };
        if turn <= left {
            let clock = &self.limiter.inner.clock;
            clock
                .sleep(Micros::from_duration_ceil(turn).unwrap_or(Micros::MAX))
                .await;
            return pass.keep();
        }
        let Settled { decision, local } = pass.give_back();
        Settled {
            decision: decision.turned_late(),
            local,
        }
    }
}

/// True when a limit refuses for no other reason than its failure policy, whichever limit refuses
/// longest.
fn is_refused_by_policy(decision: &Decision) -> bool {
    decision
        .limits()
        .iter()
        .any(|status| status.is_enforced_denial() && status.is_refused_by_policy())
}

/// A pass that is given back unless it is kept.
struct Pass<'p, 'a, S: Demands<'a>> {
    ask: &'p Check<'a, S>,
    settled: Option<Settled>,
}

impl<'a, S: Demands<'a>> Pass<'_, 'a, S> {
    fn keep(&mut self) -> Settled {
        self.settled
            .take()
            .expect("a pass is kept or given back once")
    }

    /// Gives back what was charged, where it was charged: not what a shadow limit would have
    /// refused, and not what a failure policy let through.
    fn give_back(&mut self) -> Settled {
        let settled = self.keep();
        let Settled { decision, local } = &settled;
        let store = &self.ask.limiter.inner.store;
        let given_back = self.ask.select.with(self.ask.limiter, |_, checks| {
            let both = checks.iter().zip(decision.limits());
            let charged = both
                .filter(|(_, status)| status.counts())
                .map(|(check, _)| *check);
            let charged: SmallVec<[Demand<'_>; 4]> = charged.collect();
            // Refunds and releases take effect even when nobody waits for their answer.
            match local {
                Some(local) => local.refund(&charged),
                None => drop(store.refund(&charged)),
            }
            let Some(lease) = decision.permit_id() else {
                return Ok(());
            };
            charged.iter().for_each(|check| match local {
                Some(local) => _ = local.release(check, lease),
                None => drop(store.release(check, lease)),
            });
            Ok(())
        });
        debug_assert!(given_back.is_ok(), "the same checks have just been made");
        settled
    }
}

impl<'a, S: Demands<'a>> Drop for Pass<'_, 'a, S> {
    fn drop(&mut self) {
        if self.settled.is_some() {
            drop(self.give_back());
        }
    }
}
