//! Checks that wait: until the request passes, in a queue, or for a permit.

use std::time::Duration;

use smallvec::SmallVec;

use super::check::{Check, CheckProgress, needs_permit};
use super::error::Error;
use super::permit::{Acquisition, Permit};
use super::request::Demands;
use crate::algorithm::Quota;
use crate::decision::{Decision, Retry};
use crate::demand::Demand;
use crate::time::Micros;

/// How often a waiting check looks for a permit that was released before its timeout.
const PERMIT_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long a check may wait.
#[derive(Clone, Copy, Debug)]
struct WaitPolicy {
    /// Until a denied request is allowed.
    until_allowed: Duration,
    /// In the queue, once the request is allowed.
    in_queue: Duration,
}

impl WaitPolicy {
    /// Does not wait for a denied request, and waits in queues as long as they require.
    const QUEUE_ONLY: Self = Self {
        until_allowed: Duration::ZERO,
        in_queue: Duration::MAX,
    };

    const fn up_to(max_wait: Duration) -> Self {
        Self {
            until_allowed: max_wait,
            in_queue: max_wait,
        }
    }
}

impl<'a, D: Demands<'a>> Check<'a, D> {
    /// Waits until the request passes, at most for `max_wait`, and returns the decision. This
    /// includes the wait in queue limits: when the decision is returned, the request may proceed.
    ///
    /// The denial is returned without further waiting when waiting cannot help: when the request
    /// can never pass, when it would pass only after `max_wait`, and when a limit denies only
    /// because the store is unavailable, which may take any time. A queue position that would come
    /// up later is returned to the queue.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter, Rate};
    ///
    /// let limiter = Limiter::in_memory([Limit::queue("partner", 50, Rate::per_second(1_000))])?;
    /// for _ in 0..3 {
    ///     let check = limiter.check("partner", ());
    ///     let decision = check.wait_up_to(Duration::from_secs(2)).await?;
    ///     assert!(decision.is_allowed());
    ///     // Call the partner's API.
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn wait_up_to(self, max_wait: Duration) -> Result<Decision, Error> {
        self.wait(WaitPolicy::up_to(max_wait)).await
    }

    /// Checks the request and, if a queue limit allows it, waits in the queue: when the decision is
    /// returned, the request may proceed. A denial is returned without waiting. If the future is
    /// dropped, the queue position is returned to the queue.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use tollgate::{Limit, Limiter, Rate};
    ///
    /// let limiter = Limiter::in_memory([Limit::queue("export", 3, Rate::per_second(1_000))])?;
    /// assert!(limiter.check("export", "ann").wait_in_queue().await?.is_allowed());
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn wait_in_queue(self) -> Result<Decision, Error> {
        self.wait(WaitPolicy::QUEUE_ONLY).await
    }

    /// Acquires the permits of the request's concurrency limits. They are released when the
    /// returned [`Permit`] is dropped.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    /// use tollgate::{Acquisition, Limit, Limiter};
    ///
    /// let jobs = Limit::concurrency("jobs", 20, Duration::from_secs(30));
    /// let limiter = Limiter::in_memory([jobs])?;
    /// match limiter.check("jobs", "tenant:7").acquire().await? {
    ///     Acquisition::Acquired(permit) => drop(permit), // after the work
    ///     Acquisition::Denied(decision) => println!("busy: {:?}", decision.retry_after()),
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn acquire(self) -> Result<Acquisition, Error> {
        self.acquire_up_to(Duration::ZERO).await
    }

    /// Like [`acquire`](Self::acquire), waiting up to `max_wait` for a permit. The check is
    /// repeated when a permit times out, and every 10 ms to notice permits that are released early.
    pub async fn acquire_up_to(self, max_wait: Duration) -> Result<Acquisition, Error> {
        self.acquire_with(WaitPolicy::up_to(max_wait)).await
    }

    /// Like [`acquire`](Self::acquire), waiting in queue limits as
    /// [`wait_in_queue`](Self::wait_in_queue) does.
    pub async fn acquire_in_queue(self) -> Result<Acquisition, Error> {
        self.acquire_with(WaitPolicy::QUEUE_ONLY).await
    }

    async fn acquire_with(self, policy: WaitPolicy) -> Result<Acquisition, Error> {
        let takes_permit = self.intent.is_conditional()
            && self
                .demands
                .with(&self.engine.rules, |demands| Ok(needs_permit(demands)))?;
        if !takes_permit {
            return Err(Error::NoConcurrencyLimit);
        }

        let decision = self.wait(policy).await?;
        if !decision.is_allowed() {
            return Ok(Acquisition::Denied(decision));
        }

        self.demands.with(&self.engine.rules, |demands| {
            let permit = Permit::new(self.engine, demands, decision);
            Ok(Acquisition::Acquired(permit))
        })
    }

    async fn wait(&self, policy: WaitPolicy) -> Result<Decision, Error> {
        let clock = &self.engine.clock;
        let began = clock.now();
        let left = |max: Duration| max.saturating_sub(clock.now().since(began).into());

        loop {
            let decision = match self.start()? {
                CheckProgress::Decided(decision) => decision,
                CheckProgress::Pending(mut pending) => {
                    let result = (&mut pending.call).await;
                    pending.claim_permits(&result);
                    self.resolve(result, pending.permit_id)?
                }
            };

            let pause = match decision.retry() {
                Some(Retry::Never) => return Ok(decision),
                // The store may be unavailable for longer than any `max_wait`.
                Some(_) if is_denied_by_policy(&decision) => return Ok(decision),
                // Permits may be released at any time. Other limits do not allow the request
                // earlier than reported.
                Some(Retry::After(pause)) if self.waits_only_for_permits(&decision)? => {
                    pause.min(PERMIT_POLL_INTERVAL)
                }
                Some(Retry::After(pause)) => pause,
                None => return Ok(self.pass_queue(decision, left(policy.in_queue)).await),
            };

            if pause > left(policy.until_allowed) || !self.intent.is_charge() {
                return Ok(decision);
            }
            clock
                .sleep(Micros::from_duration_ceil(pause).unwrap_or(Micros::MAX))
                .await;
        }
    }

    /// True when only concurrency limits deny the request.
    fn waits_only_for_permits(&self, decision: &Decision) -> Result<bool, Error> {
        self.demands.with(&self.engine.rules, |demands| {
            let pairs = demands.iter().zip(decision.limits());
            let mut denying = pairs.filter(|(_, limit)| limit.is_enforced_denial());
            Ok(denying.all(|(demand, _)| matches!(demand.quota(), Quota::Concurrency(_))))
        })
    }

    /// Waits in the queue for an allowed request. If the wait is longer than `left`, or if the
    /// future is dropped, the queue position is returned.
    async fn pass_queue(&self, decision: Decision, left: Duration) -> Decision {
        let wait = decision.wait();
        if wait.is_zero() || !self.intent.is_charge() {
            return decision;
        }

        let mut reservation = QueueReservation {
            check: self,
            decision: Some(decision),
        };
        if wait <= left {
            let clock = &self.engine.clock;
            clock
                .sleep(Micros::from_duration_ceil(wait).unwrap_or(Micros::MAX))
                .await;
            return reservation.take();
        }

        reservation.cancel().into_queue_denial()
    }
}

/// True when a limit denies the request only because of its failure policy, even if another limit
/// denies it for longer.
fn is_denied_by_policy(decision: &Decision) -> bool {
    decision
        .limits()
        .iter()
        .any(|limit| limit.is_enforced_denial() && limit.is_denied_by_policy())
}

/// An allowed request that waits in a queue. Dropping it cancels the request: what was charged is
/// returned.
struct QueueReservation<'p, 'a, D: Demands<'a>> {
    check: &'p Check<'a, D>,
    /// `None` once the reservation has been taken or cancelled.
    decision: Option<Decision>,
}

impl<'a, D: Demands<'a>> QueueReservation<'_, 'a, D> {
    /// Ends the wait: the request proceeds.
    fn take(&mut self) -> Decision {
        self.decision
            .take()
            .expect("a reservation is taken or cancelled only once")
    }

    /// Returns the units and permits to where they were charged. Limits that were not charged are
    /// skipped: shadow limits that deny, and limits whose fallback is to allow.
    fn cancel(&mut self) -> Decision {
        let decision = self.take();
        let engine = self.check.engine;

        let result = self.check.demands.with(&engine.rules, |demands| {
            let pairs = demands.iter().zip(decision.limits());
            let charged: SmallVec<[Demand<'_>; 4]> = pairs
                .filter(|(_, limit)| limit.is_charged())
                .map(|(demand, _)| *demand)
                .collect();

            if self.check.intent.is_reserve() {
                engine.cancel_charged(&charged, &decision);
            } else {
                // Refunds and releases take effect even if their futures are dropped.
                drop(engine.refund_charged(&charged, &decision));
            }
            if let Some(permit_id) = decision.permit_id() {
                for demand in &charged {
                    let store = engine.charged_store(demand.limit, &decision);
                    drop(store.release(demand, permit_id));
                }
            }
            Ok(())
        });

        debug_assert!(result.is_ok(), "the same demands were valid before");
        decision
    }
}

impl<'a, D: Demands<'a>> Drop for QueueReservation<'_, 'a, D> {
    fn drop(&mut self) {
        if self.decision.is_some() {
            drop(self.cancel());
        }
    }
}
