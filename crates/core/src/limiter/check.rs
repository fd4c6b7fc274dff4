//! A question being put together, and the ways to have it answered.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use smallvec::SmallVec;

use super::demands::{DemandList, Demands, OneDemand};
use super::failure::{Question, Settled};
use super::{Error, Inner, Limiter};
use crate::algorithm::{Outcome, PermitId, Quota};
use crate::decision::{Decision, LimitOutcome, Source};
use crate::key::ToKey;
use crate::limit::Rule;
use crate::store::{
    Demand, DemandBuf, Intent, OutcomeSources, SpendReply, Store, StoreError, StoreFuture,
};

/// A question to a [`Limiter`]. Await it for the decision.
#[derive(Debug)]
#[must_use = "a question does nothing until it is awaited"]
pub struct Check<'a, S> {
    pub(super) limiter: &'a Limiter,
    pub(super) select: S,
    pub(super) intent: Intent,
}

impl<'a, S: Demands<'a>> Check<'a, S> {
    #[inline]
    pub(super) const fn new(limiter: &'a Limiter, select: S, intent: Intent) -> Self {
        Self {
            limiter,
            select,
            intent,
        }
    }

    /// Names another limit that must let the request pass too. All pass, or none is charged.
    pub fn and(self, limit: &'a str, key: impl ToKey) -> Check<'a, DemandList<'a>> {
        let mut many = self.select.into_many();
        many.add(&OneDemand::new(self.limiter.find(limit), key));
        Check {
            limiter: self.limiter,
            select: many,
            intent: self.intent,
        }
    }

    /// What the request costs in every limit named so far, instead of 1. Cost 0 only looks.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Self {
        self.select.set_cost(cost);
        self
    }

    /// What the request costs in the limit named last.
    pub fn limit_cost(mut self, cost: u64) -> Self {
        if let Some(wish) = self.select.last() {
            wish.cost = cost;
        }
        self
    }

    /// Other numbers for the limit named last, such as those of the caller's tier. They must be of
    /// the limit's own algorithm and window; what the key has used so far carries over.
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
        if let Some(wish) = self.select.last() {
            wish.quota = Some(quota.into());
        }
        self
    }

    /// The decision, without an executor: by stores that keep everything in this process, and by a
    /// shared store for what it holds of a [leased](crate::lease) limit. Otherwise an error says
    /// so; a store that must travel has then been asked all the same, and may charge the request.
    #[inline]
    pub fn now_or_never(self) -> Result<Decision, Error> {
        self.ask(
            decision,
            |fallen| fallen.decision,
            |_| Err(Error::WouldBlock),
        )
    }

    /// The decision, if it takes no waiting: by a memory store, and by a shared store for what it
    /// holds of a [leased](crate::lease) limit. `None` when the store would have to be waited for,
    /// and for a request over several limits; nothing has been asked then, and awaiting the
    /// question is the way to go on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// # pollster::block_on(async {
    /// let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, Duration::from_secs(60))]);
    /// let ask = limiter.check("api", "user:42");
    /// let decision = match ask.try_now()? {
    ///     Some(decision) => decision,
    ///     None => ask.await?,
    /// };
    /// assert_eq!(decision.remaining(), 99);
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn try_now(&self) -> Result<Option<Decision>, Error> {
        let inner = &self.limiter.inner;
        self.select.with(self.limiter, |rules, checks| {
            let [check] = checks else { return Ok(None) };
            let lease = self.lease_for(checks);
            let id = lease.unwrap_or(PermitId::NONE);
            let answered = inner.store.try_spend(check, self.intent, id);
            let decided = |(outcome, source)| {
                decision(
                    rules,
                    checks,
                    &[outcome],
                    OutcomeSources::all(source),
                    lease,
                )
            };
            Ok(answered.map(decided))
        })
    }

    /// Only whether the request passes, without an executor: for hot paths that need nothing else.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, Duration::from_secs(60))]);
    /// let api = limiter.limit("api")?;
    /// if api.check("user:42").passes()? {
    ///     // go on
    /// }
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[inline]
    pub fn is_allowed(self) -> Result<bool, Error> {
        let passes = |_: &[&Rule], checks: &[Demand<'_>], outcomes: &[Outcome], _, _| {
            let mut both = checks.iter().zip(outcomes);
            both.all(|(check, outcome)| check.shadow || outcome.verdict.is_allowed())
        };
        self.select.with(self.limiter, |rules, checks| {
            if let [check] = checks
                && self.intent == Intent::Spend
                && !check.needs_permit()
                && let Some(passes) = self.limiter.inner.store.try_is_allowed(check)
            {
                return Ok(passes || check.shadow);
            }
            let fallen = |fallen: Settled| fallen.decision.is_allowed();
            let question = Question {
                rules,
                checks,
                intent: self.intent,
                lease: self.lease_for(checks),
            };
            self.ask_store(&question, passes, fallen, |_| Err(Error::WouldBlock))
        })
    }

    /// Puts the question to the store, and decides at once when the answer is there. Keeps what
    /// `part` takes of it.
    #[inline]
    pub(super) fn put<T>(&self, part: impl Fn(Settled) -> T) -> Result<Put<'a, T>, Error> {
        let decided =
            |rules: &[&Rule], checks: &[Demand<'_>], outcomes: &[Outcome], sources, lease| {
                let decision = decision(rules, checks, outcomes, sources, lease);
                Put::Settled(part(Settled {
                    decision,
                    local: None,
                }))
            };
        self.ask(
            decided,
            |fallen| Put::Settled(part(fallen)),
            |coming| Ok(Put::Coming(coming)),
        )
    }

    /// Puts the question to the store, then goes on with what is `here`, has `fallen` to the
    /// limits' failure policies, or is `coming`.
    #[inline(always)]
    fn ask<T>(
        &self,
        here: impl FnOnce(&[&Rule], &[Demand<'_>], &[Outcome], OutcomeSources, Option<PermitId>) -> T,
        fallen: impl FnOnce(Settled) -> T,
        coming: impl FnOnce(Coming<'a>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let inner = &self.limiter.inner;
        self.select.with(self.limiter, |rules, checks| {
            let (intent, lease) = (self.intent, self.lease_for(checks));
            if let [check] = checks
                && let Some((outcome, source)) =
                    inner
                        .store
                        .try_spend(check, intent, lease.unwrap_or(PermitId::NONE))
            {
                return Ok(here(
                    rules,
                    checks,
                    &[outcome],
                    OutcomeSources::all(source),
                    lease,
                ));
            }
            self.ask_store(
                &Question {
                    rules,
                    checks,
                    intent,
                    lease,
                },
                here,
                fallen,
                coming,
            )
        })
    }

    /// What a pass is held under, if it takes a place.
    #[inline]
    fn lease_for(&self, checks: &[Demand<'_>]) -> Option<PermitId> {
        let needs_permit = self.intent == Intent::Spend && holds(checks);
        needs_permit.then(|| self.limiter.inner.permit_ids.next())
    }

    /// The same for several checks, and for stores that must travel. Apart, so that the usual way
    /// is short.
    #[inline(never)]
    fn ask_store<T>(
        &self,
        question: &Question<'_>,
        here: impl FnOnce(&[&Rule], &[Demand<'_>], &[Outcome], OutcomeSources, Option<PermitId>) -> T,
        fallen: impl FnOnce(Settled) -> T,
        coming: impl FnOnce(Coming<'a>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (
            inner,
            &Question {
                rules,
                checks,
                intent,
                lease,
            },
        ) = (&self.limiter.inner, question);
        if checks.is_empty() {
            return Ok(here(rules, checks, &[], OutcomeSources::default(), None));
        }
        match inner
            .store
            .spend(checks, intent, lease.unwrap_or(PermitId::NONE))
        {
            StoreFuture::Ready(Some(Ok(spent))) => {
                inner.heard(&spent);
                Ok(here(rules, checks, &spent.outcomes, spent.sources, lease))
            }
            StoreFuture::Ready(Some(Err(error))) => Ok(fallen(inner.fall_back(question, &error))),
            answer => coming(Coming {
                answer,
                lease,
                places: Places::new(inner, checks, lease),
            }),
        }
    }

    /// The decision once the answer has come, by the limits' failure policies when there is none.
    pub(super) fn settle(
        &self,
        answer: Result<SpendReply, StoreError>,
        lease: Option<PermitId>,
    ) -> Result<Settled, Error> {
        let inner = &self.limiter.inner;
        self.select
            .with(self.limiter, |rules, checks| match answer {
                Ok(spent) => {
                    inner.heard(&spent);
                    let decision = decision(rules, checks, &spent.outcomes, spent.sources, lease);
                    Ok(Settled {
                        decision,
                        local: None,
                    })
                }
                Err(error) => {
                    let question = Question {
                        rules,
                        checks,
                        intent: self.intent,
                        lease,
                    };
                    Ok(inner.fall_back(&question, &error))
                }
            })
    }
}

/// A question put: answered, or about to be.
#[derive(Debug)]
pub(super) enum Put<'a, T> {
    Settled(T),
    Coming(Coming<'a>),
}

/// An answer on its way, and the lease it may grant.
#[derive(Debug)]
pub(super) struct Coming<'a> {
    pub(super) answer: StoreFuture<'a, SpendReply>,
    pub(super) lease: Option<PermitId>,
    places: Places<'a>,
}

impl Coming<'_> {
    /// The answer has come: what it granted is somebody's now.
    pub(super) fn came(&mut self, answer: &Result<SpendReply, StoreError>) {
        // After the other errors, the step may have been done all the same.
        let is_certain = !matches!(
            answer,
            Err(StoreError::Timeout | StoreError::Unavailable(_))
        );
        if is_certain {
            self.places.taken.clear();
        }
    }
}

/// The places that a store may grant without anybody hearing of it, because its answer came too
/// late or nobody waited for it. Nobody would hold them, and nobody else could, until their leases
/// run out; so they are given back.
#[derive(Debug)]
struct Places<'a> {
    store: &'a dyn Store,
    taken: Vec<DemandBuf>,
    lease: PermitId,
}

impl<'a> Places<'a> {
    fn new(inner: &'a Inner, checks: &[Demand<'_>], lease: Option<PermitId>) -> Self {
        let taken = checks
            .iter()
            .filter(|check| lease.is_some() && check.needs_permit());
        let taken = taken.map(Demand::to_buf).collect();
        Self {
            store: &*inner.store,
            taken,
            lease: lease.unwrap_or(PermitId::NONE),
        }
    }
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        for place in &self.taken {
            // A release takes effect even when nobody waits for its answer.
            drop(self.store.release(&place.as_demand(), self.lease));
        }
    }
}

/// True when a pass takes a place that must be given back.
#[inline]
pub(super) fn holds(checks: &[Demand<'_>]) -> bool {
    checks.iter().any(Demand::needs_permit)
}

/// The decision that the store's outcomes make.
#[inline(always)]
fn decision(
    rules: &[&Rule],
    checks: &[Demand<'_>],
    outcomes: &[Outcome],
    sources: OutcomeSources,
    lease: Option<PermitId>,
) -> Decision {
    if let ([rule], [check], [outcome]) = (rules, checks, outcomes) {
        let status = LimitOutcome::new(rule.name(), check, *outcome, sources.get(0));
        return Decision::single(status, status.source(), lease);
    }
    let answers = rules.iter().zip(checks).zip(outcomes).enumerate();
    let statuses = answers.map(|(index, ((rule, check), outcome))| {
        LimitOutcome::new(rule.name(), check, *outcome, sources.get(index))
    });
    let statuses: SmallVec<[LimitOutcome; 1]> = statuses.collect();
    let source = source_of(&statuses);
    Decision::new(statuses, source, lease)
}

/// Where the answer as a whole came from: the store if it was asked at all, else what of this
/// process stands nearest to it.
fn source_of(statuses: &[LimitOutcome]) -> Source {
    let any = |source| statuses.iter().any(|status| status.source() == source);
    let order = [
        Source::Store,
        Source::DenyCache,
        Source::Lease,
        Source::Local,
    ];
    order
        .into_iter()
        .find(|source| any(*source))
        .unwrap_or(Source::Store)
}

impl<'a, S: Demands<'a> + Unpin> IntoFuture for Check<'a, S> {
    type Output = Result<Decision, Error>;
    type IntoFuture = CheckFuture<'a, S>;

    fn into_future(self) -> CheckFuture<'a, S> {
        CheckFuture {
            ask: self,
            coming: None,
        }
    }
}

/// An [`Check`] being answered. On the memory store it is ready at once and allocates nothing.
#[derive(Debug)]
pub struct CheckFuture<'a, S> {
    ask: Check<'a, S>,
    coming: Option<Coming<'a>>,
}

impl<'a, S: Demands<'a> + Unpin> Future for CheckFuture<'a, S> {
    type Output = Result<Decision, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let coming = match &mut this.coming {
            Some(coming) => coming,
            None => match this.ask.put(|settled| settled.decision)? {
                Put::Settled(decision) => return Poll::Ready(Ok(decision)),
                Put::Coming(coming) => this.coming.insert(coming),
            },
        };
        let answer = ready!(Pin::new(&mut coming.answer).poll(context));
        coming.came(&answer);
        Poll::Ready(
            this.ask
                .settle(answer, coming.lease)
                .map(|settled| settled.decision),
        )
    }
}
