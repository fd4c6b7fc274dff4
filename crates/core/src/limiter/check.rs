//! A check: the request being built, and the ways to get its decision.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use smallvec::SmallVec;

use super::demands::{DemandList, Demands, OneDemand};
use super::failure::{ResolvedDecision, StoreRequest};
use super::{Error, Inner, Limiter};
use crate::algorithm::{Outcome, PermitId, Quota};
use crate::decision::{Decision, LimitOutcome, Source};
use crate::key::ToKey;
use crate::limit::Rule;
use crate::store::{
    Demand, DemandBuf, Intent, OutcomeSources, SpendReply, Store, StoreError, StoreFuture,
};

/// A request to a [`Limiter`], created by [`Limiter::check`] or [`Limiter::peek`]. Await it for the
/// decision.
#[derive(Debug)]
#[must_use = "a check does nothing until it is awaited"]
pub struct Check<'a, D> {
    pub(super) limiter: &'a Limiter,
    pub(super) demands: D,
    pub(super) intent: Intent,
}

impl<'a, D: Demands<'a>> Check<'a, D> {
    #[inline]
    pub(super) const fn new(limiter: &'a Limiter, demands: D, intent: Intent) -> Self {
        Self {
            limiter,
            demands,
            intent,
        }
    }

    /// Adds another limit that the request must pass. All limits pass, or none is charged.
    pub fn and(self, limit: &'a str, key: impl ToKey) -> Check<'a, DemandList<'a>> {
        let mut list = self.demands.into_list();
        list.add(&OneDemand::new(self.limiter.lookup(limit), key));
        Check {
            limiter: self.limiter,
            demands: list,
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
        if let Some(options) = self.demands.last_options() {
            options.cost = cost;
        }
        self
    }

    /// Sets another quota for the limit added last, such as that of the caller's tier. It must have
    /// the limit's algorithm and window. What the key has used so far carries over.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::in_memory([Limit::token_bucket("plan", 100, Rate::per_second(10))]);
    /// let pro = TokenBucket::new(1_000, Rate::per_second(100))?;
    /// let decision = limiter.check("plan", "key-7f3a").quota(pro).now_or_never()?;
    /// assert_eq!(decision.remaining(), 999);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quota(mut self, quota: impl Into<Quota>) -> Self {
        if let Some(options) = self.demands.last_options() {
            options.quota = Some(quota.into());
        }
        self
    }

    /// Returns the decision without an executor. A memory store always decides this way; a shared
    /// store does for [leased](crate::lease) limits while the lease lasts. Otherwise this returns
    /// [`Error::WouldBlock`]. The store has been called nevertheless, and may charge the request.
    #[inline]
    pub fn now_or_never(self) -> Result<Decision, Error> {
        self.decide(
            assemble_decision,
            |resolved| resolved.decision,
            |_| Err(Error::WouldBlock),
        )
    }

    /// Returns the decision if it needs no waiting. A memory store always decides this way; a
    /// shared store does for [leased](crate::lease) limits while the lease lasts. Returns `None` if
    /// a store call is needed, and for a request over several limits. The store has not been called
    /// then: await the check instead.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// # pollster::block_on(async {
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
    /// let check = limiter.check("api", "user:42");
    /// let decision = match check.try_now()? {
    ///     Some(decision) => decision,
    ///     None => check.await?,
    /// };
    /// assert_eq!(decision.remaining(), 99);
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn try_now(&self) -> Result<Option<Decision>, Error> {
        let inner = &self.limiter.inner;
        self.demands.with(self.limiter, |rules, demands| {
            let [demand] = demands else { return Ok(None) };

            let permit_id = self.next_permit_id(demands);
            let spent =
                inner
                    .store
                    .try_spend(demand, self.intent, permit_id.unwrap_or(PermitId::NONE));

            Ok(spent.map(|(outcome, source)| {
                let sources = OutcomeSources::all(source);
                assemble_decision(rules, demands, &[outcome], sources, permit_id)
            }))
        })
    }

    /// Returns only whether the request is allowed, without an executor: for hot paths that need no
    /// details. Returns [`Error::WouldBlock`] like [`now_or_never`](Self::now_or_never).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
    /// let api = limiter.limit("api")?;
    /// if api.check("user:42").is_allowed()? {
    ///     println!("allowed");
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    pub fn is_allowed(self) -> Result<bool, Error> {
        let all_allowed = |_: &[&Rule], demands: &[Demand<'_>], outcomes: &[Outcome], _, _| {
            let mut pairs = demands.iter().zip(outcomes);
            pairs.all(|(demand, outcome)| demand.shadow || outcome.verdict.is_allowed())
        };

        self.demands.with(self.limiter, |rules, demands| {
            // The fast path: a single demand without a permit, decided in memory.
            if let [demand] = demands
                && self.intent == Intent::Spend
                && !demand.needs_permit()
                && let Some(is_allowed) = self.limiter.inner.store.try_is_allowed(demand)
            {
                return Ok(is_allowed || demand.shadow);
            }

            let request = StoreRequest {
                rules,
                demands,
                intent: self.intent,
                permit_id: self.next_permit_id(demands),
            };
            self.call_store(
                &request,
                all_allowed,
                |resolved| resolved.decision.is_allowed(),
                |_| Err(Error::WouldBlock),
            )
        })
    }

    /// Sends the request to the store. If the reply is ready, the result is what `extract` takes of
    /// the decision.
    #[inline]
    pub(super) fn start<T>(
        &self,
        extract: impl Fn(ResolvedDecision) -> T,
    ) -> Result<CheckProgress<'a, T>, Error> {
        let on_reply =
            |rules: &[&Rule], demands: &[Demand<'_>], outcomes: &[Outcome], sources, permit_id| {
                let decision = assemble_decision(rules, demands, outcomes, sources, permit_id);
                CheckProgress::Decided(extract(ResolvedDecision {
                    decision,
                    local: None,
                }))
            };

        self.decide(
            on_reply,
            |resolved| CheckProgress::Decided(extract(resolved)),
            |pending| Ok(CheckProgress::Pending(pending)),
        )
    }

    /// Sends the request to the store, and continues with `on_reply` if the reply is ready, with
    /// `on_fallback` if the store failed and the failure policies decided, and with `on_pending` if
    /// the call is in flight.
    #[inline(always)]
    fn decide<T>(
        &self,
        on_reply: impl FnOnce(
            &[&Rule],
            &[Demand<'_>],
            &[Outcome],
            OutcomeSources,
            Option<PermitId>,
        ) -> T,
        on_fallback: impl FnOnce(ResolvedDecision) -> T,
        on_pending: impl FnOnce(PendingDecision<'a>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let inner = &self.limiter.inner;
        self.demands.with(self.limiter, |rules, demands| {
            let (intent, permit_id) = (self.intent, self.next_permit_id(demands));

            // The fast path: a single demand that the store decides without waiting.
            if let [demand] = demands
                && let Some((outcome, source)) =
                    inner
                        .store
                        .try_spend(demand, intent, permit_id.unwrap_or(PermitId::NONE))
            {
                let sources = OutcomeSources::all(source);
                return Ok(on_reply(rules, demands, &[outcome], sources, permit_id));
            }

            let request = StoreRequest {
                rules,
                demands,
                intent,
                permit_id,
            };
            self.call_store(&request, on_reply, on_fallback, on_pending)
        })
    }

    /// A new permit id if the request takes permits.
    #[inline]
    fn next_permit_id(&self, demands: &[Demand<'_>]) -> Option<PermitId> {
        let needs_permit = self.intent == Intent::Spend && needs_permit(demands);
        needs_permit.then(|| self.limiter.inner.permit_ids.next())
    }

    /// The slow path of [`decide`](Self::decide), for several demands and for stores that must
    /// wait. It is a function of its own to keep the fast path small.
    #[inline(never)]
    fn call_store<T>(
        &self,
        request: &StoreRequest<'_>,
        on_reply: impl FnOnce(
            &[&Rule],
            &[Demand<'_>],
            &[Outcome],
            OutcomeSources,
            Option<PermitId>,
        ) -> T,
        on_fallback: impl FnOnce(ResolvedDecision) -> T,
        on_pending: impl FnOnce(PendingDecision<'a>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let inner = &self.limiter.inner;
        let &StoreRequest {
            rules,
            demands,
            intent,
            permit_id,
        } = request;

        if demands.is_empty() {
            let sources = OutcomeSources::default();
            return Ok(on_reply(rules, demands, &[], sources, None));
        }

        match inner
            .store
            .spend(demands, intent, permit_id.unwrap_or(PermitId::NONE))
        {
            StoreFuture::Ready(Some(Ok(reply))) => {
                inner.record_reply(&reply);
                let SpendReply {
                    outcomes, sources, ..
                } = &reply;
                Ok(on_reply(rules, demands, outcomes, *sources, permit_id))
            }
            StoreFuture::Ready(Some(Err(error))) => {
                Ok(on_fallback(inner.fall_back(request, &error)))
            }
            call => on_pending(PendingDecision {
                call,
                permit_id,
                unclaimed: UnclaimedPermits::new(inner, demands, permit_id),
            }),
        }
    }

    /// The decision from the result of a store call: by the store's reply, or by the failure
    /// policies if the call failed.
    pub(super) fn resolve(
        &self,
        result: Result<SpendReply, StoreError>,
        permit_id: Option<PermitId>,
    ) -> Result<ResolvedDecision, Error> {
        let inner = &self.limiter.inner;
        self.demands.with(self.limiter, |rules, demands| {
            let reply = match result {
                Ok(reply) => reply,
                Err(error) => {
                    let request = StoreRequest {
                        rules,
                        demands,
                        intent: self.intent,
                        permit_id,
                    };
                    return Ok(inner.fall_back(&request, &error));
                }
            };

            inner.record_reply(&reply);
            let decision =
                assemble_decision(rules, demands, &reply.outcomes, reply.sources, permit_id);
            Ok(ResolvedDecision {
                decision,
                local: None,
            })
        })
    }
}

/// A check that has been sent to the store: decided, or waiting for the store's reply.
#[derive(Debug)]
pub(super) enum CheckProgress<'a, T> {
    Decided(T),
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
    store: &'a dyn Store,
    demands: Vec<DemandBuf>,
    permit_id: PermitId,
}

impl<'a> UnclaimedPermits<'a> {
    fn new(inner: &'a Inner, demands: &[Demand<'_>], permit_id: Option<PermitId>) -> Self {
        let demands = demands
            .iter()
            .filter(|demand| permit_id.is_some() && demand.needs_permit())
            .map(Demand::to_buf)
            .collect();
        Self {
            store: &*inner.store,
            demands,
            permit_id: permit_id.unwrap_or(PermitId::NONE),
        }
    }
}

impl Drop for UnclaimedPermits<'_> {
    fn drop(&mut self) {
        for demand in &self.demands {
            // A release takes effect even if its future is dropped.
            drop(self.store.release(&demand.as_demand(), self.permit_id));
        }
    }
}

/// True when the request takes a permit, which must be released, if it is allowed.
#[inline]
pub(super) fn needs_permit(demands: &[Demand<'_>]) -> bool {
    demands.iter().any(Demand::needs_permit)
}

/// Makes a decision from the store's outcomes.
#[inline(always)]
fn assemble_decision(
    rules: &[&Rule],
    demands: &[Demand<'_>],
    outcomes: &[Outcome],
    sources: OutcomeSources,
    permit_id: Option<PermitId>,
) -> Decision {
    if let ([rule], [demand], [outcome]) = (rules, demands, outcomes) {
        let limit = LimitOutcome::new(rule.name(), demand, *outcome, sources.get(0));
        return Decision::single(limit, limit.source(), permit_id);
    }

    let rows = rules.iter().zip(demands).zip(outcomes).enumerate();
    let limits = rows.map(|(index, ((rule, demand), outcome))| {
        LimitOutcome::new(rule.name(), demand, *outcome, sources.get(index))
    });
    let limits: SmallVec<[LimitOutcome; 1]> = limits.collect();
    let source = overall_source(&limits);
    Decision::new(limits, source, permit_id)
}

/// The source of a decision over several limits: the store if any outcome came from it, else the
/// next source in this order.
fn overall_source(limits: &[LimitOutcome]) -> Source {
    let precedence = [
        Source::Store,
        Source::DenyCache,
        Source::Lease,
        Source::Local,
    ];
    let is_present = |source: &Source| limits.iter().any(|limit| limit.source() == *source);

    precedence
        .into_iter()
        .find(is_present)
        .unwrap_or(Source::Store)
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
            None => match this.check.start(|resolved| resolved.decision)? {
                CheckProgress::Decided(decision) => return Poll::Ready(Ok(decision)),
                CheckProgress::Pending(pending) => this.pending.insert(pending),
            },
        };

        let result = ready!(Pin::new(&mut pending.call).poll(context));
        pending.claim_permits(&result);
        let resolved = this.check.resolve(result, pending.permit_id)?;
        Poll::Ready(Ok(resolved.decision))
    }
}
