//! A check: the request being built, and the ways to get its decision.

use std::future::{Future, IntoFuture};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use smallvec::SmallVec;

use super::engine::Engine;
use super::error::Error;
use super::request::{DemandList, Demands, ExtendDemands, OneDemand};
use crate::algorithm::{CounterView, Outcome, PermitId, Quota};
use crate::decision::{Decision, LimitOutcome, overall_source};
use crate::demand::{Demand, DemandBuf};
use crate::key::ToKey;
use crate::store::{Intent, Source, SpendReply, StoreError, StoreFuture};
use crate::time::Micros;

/// A request to a [`Limiter`](crate::Limiter), created by [`check`](crate::Limiter::check),
/// [`peek`](crate::Limiter::peek) or [`request`](crate::Limiter::request). Await it for the decision.
#[derive(Debug)]
#[must_use = "a check does nothing until it is awaited"]
pub struct Check<'a, D> {
    pub(super) engine: &'a Arc<Engine>,
    pub(super) demands: D,
    pub(super) intent: Intent,
}

impl<'a, D: ExtendDemands<'a>> Check<'a, D> {
    /// Adds another limit that the request must pass. All limits pass, or none is charged.
    pub fn and(self, limit: &'a str, key: impl ToKey) -> Check<'a, DemandList<'a>> {
        let mut demands = self.demands.into_list();
        demands.add(OneDemand::new(self.engine.lookup(limit), key));
        Check {
            engine: self.engine,
            demands,
            intent: self.intent,
        }
    }

    /// Sets the cost in every limit added so far. Defaults to 1; cost 0 only reads the counters.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Self {
        self.demands.set_cost(cost);
        self
    }

    /// Sets the cost in the limit added last.
    pub fn limit_cost(mut self, cost: u64) -> Self {
        self.demands.set_last(Some(cost), None);
        self
    }

    /// Sets another quota for the limit added last, such as that of the caller's tier. It must have
    /// the limit's algorithm and window. What the key has used so far carries over.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::in_memory([Limit::token_bucket("plan", 100, Rate::per_second(10))])?;
    /// let pro = TokenBucket::new(1_000, Rate::per_second(100))?;
    /// let decision = limiter.check("plan", "key-7f3a").quota(pro).try_now()?;
    /// assert_eq!(decision.remaining(), 999);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quota(mut self, quota: impl Into<Quota>) -> Self {
        self.demands.set_last(None, Some(quota.into()));
        self
    }
}

impl<'a, D: Demands<'a>> Check<'a, D> {
    #[inline]
    pub(super) const fn new(engine: &'a Arc<Engine>, demands: D, intent: Intent) -> Self {
        Self {
            engine,
            demands,
            intent,
        }
    }

    /// Returns the decision if it needs no waiting. A memory store always decides this way; a
    /// shared store does for [leased](crate::Consistency::Leased) limits while the lease lasts.
    /// Otherwise this returns [`Error::WouldBlock`], and nothing has been charged: await the check
    /// instead.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Error, Limit, Limiter};
    ///
    /// # pollster::block_on(async {
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
    /// let check = limiter.check("api", "user:42");
    /// let decision = match check.try_now() {
    ///     Err(Error::WouldBlock) => check.await?,
    ///     result => result?,
    /// };
    /// assert_eq!(decision.remaining(), 99);
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    // Inlined so that the caller builds only what it reads of the decision.
    #[inline(always)]
    pub fn try_now(&self) -> Result<Decision, Error> {
        self.demands.with(&self.engine.rules, |demands| {
            self.plan().try_decide(demands, |decision| decision)
        })
    }

    /// Returns only whether the request is allowed, if that needs no waiting: for hot paths that
    /// need no details. Otherwise returns [`Error::WouldBlock`] like [`try_now`](Self::try_now).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
    /// let api = limiter.limit("api")?;
    /// if api.check("user:42").try_is_allowed()? {
    ///     println!("allowed");
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    // Inlined like `try_now`.
    #[inline(always)]
    pub fn try_is_allowed(&self) -> Result<bool, Error> {
        self.demands
            .with(&self.engine.rules, |demands| match demands {
                // The fast path: a single demand without a permit, decided in memory.
                [demand] if self.intent == Intent::Spend && !demand.needs_permit() => {
                    self.engine.try_is_allowed(demand)
                }
                demands => self.plan().try_is_allowed(demands),
            })
    }

    /// Sends the request to the store.
    #[inline]
    pub(super) fn start(&self) -> Result<CheckProgress<'a>, Error> {
        self.demands.with(&self.engine.rules, |demands| {
            // The fast path: a single demand that the store decides without waiting.
            if let [_] = demands
                && let Ok(progress) = self.plan().try_decide(demands, CheckProgress::Decided)
            {
                return Ok(progress);
            }
            Ok(self.plan().call_store(demands))
        })
    }

    /// The decision from the result of a store call that was awaited.
    pub(super) fn resolve(
        &self,
        result: Result<SpendReply, StoreError>,
        permit_id: Option<PermitId>,
    ) -> Result<Decision, Error> {
        self.demands.with(&self.engine.rules, |demands| {
            Ok(self.plan().conclude(demands, result, permit_id))
        })
    }

    /// The check without its demands. Not inlined functions get a copy of it, so that the demands
    /// stay in registers.
    #[inline(always)]
    const fn plan(&self) -> Plan<'a> {
        Plan {
            engine: self.engine,
            intent: self.intent,
        }
    }
}

impl<'a, K: ToKey> Check<'a, OneDemand<'a, K>> {
    /// Returns only the outcome of the limit, if that needs no waiting: for hot paths that need no
    /// more. Otherwise returns [`Error::WouldBlock`] like [`try_now`](Self::try_now), as does a check
    /// that takes a permit, which would be lost.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
    /// assert_eq!(limiter.check("api", "ann").try_outcome()?.remaining(), 99);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline(always)]
    pub fn try_outcome(&self) -> Result<LimitOutcome, Error> {
        self.demands
            .with(&self.engine.rules, |demands| match demands {
                [demand] if self.plan().needs_no_permit(demand) => self.plan().try_outcome(demand),
                _ => Err(Error::WouldBlock),
            })
    }
}

/// How the demands of a check are decided.
#[derive(Clone, Copy)]
struct Plan<'a> {
    engine: &'a Arc<Engine>,
    intent: Intent,
}

impl<'a> Plan<'a> {
    #[inline(never)]
    fn try_is_allowed(self, demands: &[Demand<'_>]) -> Result<bool, Error> {
        self.try_decide(demands, |decision| decision.is_allowed())
    }

    /// Decides without waiting, and returns what `extract` takes of the decision, which is built in
    /// place. [`Error::WouldBlock`] if a store call is needed; then nothing has been charged.
    #[inline(always)]
    fn try_decide<T>(
        self,
        demands: &[Demand<'_>],
        extract: impl FnOnce(Decision) -> T,
    ) -> Result<T, Error> {
        // The usual case. Permits are left to the other one, to keep this one short.
        if let [demand] = demands
            && self.needs_no_permit(demand)
        {
            let limit = self.try_outcome(demand)?;
            return Ok(extract(Decision::single(limit)));
        }
        let decision = self.try_spend_all(demands);
        decision.map(extract).ok_or(Error::WouldBlock)
    }

    /// Whether the decision on this demand alone has no permit and no reservation.
    #[inline(always)]
    fn needs_no_permit(self, demand: &Demand<'_>) -> bool {
        !self.intent.is_reserve() && !demand.needs_permit()
    }

    /// The outcome of one demand that needs no permit, decided without waiting.
    #[inline(always)]
    fn try_outcome(self, demand: &Demand<'_>) -> Result<LimitOutcome, Error> {
        let store = self.engine.store_for(demand.limit);
        let Some((outcome, source)) = store.try_spend(demand, self.intent, PermitId::NONE) else {
            return Err(Error::WouldBlock);
        };

        if source == Source::Lease {
            self.engine
                .record_lease(demand, self.intent, outcome.verdict.is_allowed());
        }
        Ok(LimitOutcome::new(demand, outcome, source))
    }

    #[inline(never)]
    fn try_spend_all(self, demands: &[Demand<'_>]) -> Option<Decision> {
        let permit_id = self.next_permit_id(demands);
        let id = permit_id.unwrap_or(PermitId::NONE);
        let reply = self.engine.try_spend(demands, self.intent, id)?;
        self.engine.record_reply(demands, self.intent, &reply);
        let decision = assemble_decision(demands, reply.outcomes(), permit_id);
        Some(self.keep_counted(decision, permit_id))
    }

    /// A request that is only counted has its permit even if it does not fit.
    #[inline(always)]
    fn keep_counted(self, decision: Decision, permit_id: Option<PermitId>) -> Decision {
        if self.intent == Intent::Count {
            return decision.with_counted_permit(permit_id);
        }
        decision
    }

    /// A new permit id if the request takes permits.
    #[inline]
    fn next_permit_id(self, demands: &[Demand<'_>]) -> Option<PermitId> {
        let needs_id = match self.intent {
            Intent::Peek | Intent::Inspect | Intent::Refuse => false,
            Intent::Spend | Intent::Count => needs_permit(demands),
            Intent::Reserve { .. } => true,
        };
        needs_id.then(|| self.engine.permit_ids.next())
    }

    /// The slow path of [`start`](Self::start), for several demands and for stores that must wait.
    /// It is a function of its own to keep the fast path small.
    #[inline(never)]
    fn call_store(self, demands: &[Demand<'_>]) -> CheckProgress<'a> {
        let engine = self.engine;
        if demands.is_empty() {
            return CheckProgress::Decided(assemble_decision(demands, &[], None));
        }

        let permit_id = self.next_permit_id(demands);
        let call = engine.spend(demands, self.intent, permit_id.unwrap_or(PermitId::NONE));
        match call {
            StoreFuture::Ready(Some(result)) => {
                CheckProgress::Decided(self.conclude(demands, result, permit_id))
            }
            call => CheckProgress::Pending(PendingDecision {
                call,
                permit_id,
                unclaimed: UnclaimedPermits::new(engine, demands, permit_id),
            }),
        }
    }

    /// The decision from the result of a store call: by the store's reply, or by the failure
    /// policies if the call failed.
    fn conclude(
        self,
        demands: &[Demand<'_>],
        result: Result<SpendReply, StoreError>,
        permit_id: Option<PermitId>,
    ) -> Decision {
        match result {
            Ok(reply) => {
                self.engine.record_reply(demands, self.intent, &reply);
                let decision = assemble_decision(demands, reply.outcomes(), permit_id);
                self.keep_counted(decision, permit_id)
            }
            Err(error) => self
                .engine
                .decide_failed(demands, self.intent, permit_id, &error),
        }
    }
}

impl<'a, D: Demands<'a>> Check<'a, D> {
    /// Peeks, whatever the request was created for, and also tells what the counters contain: for
    /// support tools, and for clients that need more than what remains.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))])?;
    /// limiter.check("api", "ann").cost(5).await?;
    /// limiter.reserve("api", "ann").cost(20).await?.settle(25).await?;
    ///
    /// let inspection = limiter.peek("api", "ann").inspect().await?;
    /// assert_eq!(inspection.decision.remaining(), 70);
    /// assert_eq!(inspection.counters[0].used, 30);
    /// assert_eq!(inspection.counters[0].reserved.count, 0);
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn inspect(mut self) -> Result<Inspection, Error> {
        self.intent = Intent::Inspect;
        let call = self.demands.with(&self.engine.rules, |demands| {
            let call = || self.engine.spend(demands, self.intent, PermitId::NONE);
            Ok((!demands.is_empty()).then(call))
        })?;

        let mut result = match call {
            Some(call) => call.await,
            None => Ok(SpendReply::new([], Source::Store, Micros::ZERO)),
        };
        let counters = match &mut result {
            Ok(reply) => mem::take(&mut reply.counters),
            Err(_) => Vec::new(),
        };
        Ok(Inspection {
            decision: self.resolve(result, None)?,
            counters,
        })
    }
}

/// What a request would be answered, and what its counters contain. See [`Check::inspect`].
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The decision, as of a peek.
    pub decision: Decision,
    /// What the counter of each limit contains, in the order of the request. Empty while the store
    /// is unavailable, and if it does not tell.
    pub counters: Vec<CounterView>,
}

/// A check that has been sent to the store: decided, or waiting for the store's reply.
#[derive(Debug)]
pub(super) enum CheckProgress<'a> {
    Decided(Decision),
    Pending(PendingDecision<'a>),
}

/// A store call in flight, and the permit that it may grant.
#[derive(Debug)]
pub(super) struct PendingDecision<'a> {
    pub(super) call: StoreFuture<'a, SpendReply>,
    pub(super) permit_id: Option<PermitId>,
    unclaimed: UnclaimedPermits<'a>,
}

impl PendingDecision<'_> {
    /// Notes that the call has finished, so that its permits are not released on drop. After a
    /// timeout or a lost connection the store may still have granted them: then they stay
    /// unclaimed.
    pub(super) fn claim_permits(&mut self, result: &Result<SpendReply, StoreError>) {
        let is_certain = !matches!(
            result,
            Err(StoreError::Timeout | StoreError::Unavailable(_))
        );
        if is_certain {
            self.unclaimed.demands.clear();
        }
    }
}

/// The permits that a store may grant although the caller never learns of it, because the reply was
/// lost or the future was dropped. Without an owner they would block others until their timeout, so
/// they are released on drop.
#[derive(Debug)]
struct UnclaimedPermits<'a> {
    engine: &'a Engine,
    demands: Vec<DemandBuf>,
    permit_id: PermitId,
}

impl<'a> UnclaimedPermits<'a> {
    fn new(engine: &'a Engine, demands: &[Demand<'_>], permit_id: Option<PermitId>) -> Self {
        let demands = demands
            .iter()
            .filter(|demand| permit_id.is_some() && demand.needs_permit())
            .map(Demand::to_buf)
            .collect();
        Self {
            engine,
            demands,
            permit_id: permit_id.unwrap_or(PermitId::NONE),
        }
    }
}

impl Drop for UnclaimedPermits<'_> {
    fn drop(&mut self) {
        for demand in &self.demands {
            let store = self.engine.store_for(&demand.limit);
            // A release takes effect even if its future is dropped.
            drop(store.release(&demand.as_demand(), self.permit_id));
        }
    }
}

/// True when the request takes a permit, which must be released, if it is allowed.
#[inline]
pub(super) fn needs_permit(demands: &[Demand<'_>]) -> bool {
    demands.iter().any(Demand::needs_permit)
}

/// Makes a decision from the store's outcomes.
fn assemble_decision(
    demands: &[Demand<'_>],
    outcomes: &[(Outcome, Source)],
    permit_id: Option<PermitId>,
) -> Decision {
    let rows = demands.iter().zip(outcomes);
    let limits: SmallVec<[LimitOutcome; 1]> = rows
        .map(|(demand, (outcome, source))| LimitOutcome::new(demand, *outcome, *source))
        .collect();
    let source = overall_source(&limits, None);
    Decision::new(limits, source, permit_id)
}

impl<'a, D: Demands<'a> + Unpin> IntoFuture for Check<'a, D> {
    type Output = Result<Decision, Error>;
    type IntoFuture = CheckFuture<'a, D>;

    fn into_future(self) -> CheckFuture<'a, D> {
        CheckFuture {
            check: self,
            pending: None,
        }
    }
}

/// The future of a [`Check`]. With the memory store it is ready on the first poll and allocates
/// nothing.
#[derive(Debug)]
pub struct CheckFuture<'a, D> {
    check: Check<'a, D>,
    /// The store call in flight; `None` before the first poll.
    pending: Option<PendingDecision<'a>>,
}

impl<'a, D: Demands<'a> + Unpin> Future for CheckFuture<'a, D> {
    type Output = Result<Decision, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let pending = match &mut this.pending {
            Some(pending) => pending,
            None => match this.check.start()? {
                CheckProgress::Decided(decision) => return Poll::Ready(Ok(decision)),
                CheckProgress::Pending(pending) => this.pending.insert(pending),
            },
        };

        let result = ready!(Pin::new(&mut pending.call).poll(context));
        pending.claim_permits(&result);
        Poll::Ready(this.check.resolve(result, pending.permit_id))
    }
}
