//! Leased and eventual checks: first what is held and known here, then the store.

use smallvec::SmallVec;
use tokio::time::timeout_at;
use tollgate::lease::{Said, Turn};
use tollgate::store::{Answer, Intent, Sources, Spent};
use tollgate::{
    Check, CheckBuf, Consistency, LeaseId, Micros, Outcome, Source, StoreError, Verdict,
};

use super::travel::joined;
use super::{RedisStore, pending};

/// How often a request waits for somebody else's trip before it makes one of its own.
const WAITS_MAX: usize = 3;

/// True for what may be answered without a trip.
#[inline]
pub(super) fn is_leased(check: &Check<'_>) -> bool {
    matches!(
        check.key.consistency(),
        Consistency::Leased | Consistency::Eventual
    )
}

impl RedisStore {
    /// One check that is not known here: by a trip that takes more than it needs, its own or
    /// somebody else's.
    pub(super) fn spend_leased<'a>(&'a self, check: &Check<'_>) -> Answer<'a, Spent> {
        let (check, deadline) = (check.to_buf(), self.deadline());
        self.look_after();
        pending(async move {
            for _ in 0..WAITS_MAX {
                match self.inner.leases.spend(&check.as_check()) {
                    Turn::Said(said, trip) => {
                        trip.into_iter().for_each(|trip| self.send(trip));
                        return Ok(said.into());
                    }
                    Turn::Go(trip) => return Ok(joined(self.travel(trip, deadline)).await?.into()),
                    Turn::Wait(flight) => {
                        let landed = timeout_at(deadline, flight.landed()).await;
                        landed.map_err(|_| StoreError::Timeout)?;
                    }
                    Turn::Strict(_) => break,
                }
            }
            self.ask(&[check.as_check()], Intent::Spend, LeaseId::NONE)
                .await
        })
    }

    /// Looks, and counts what is held here with what is there.
    pub(super) fn look<'a>(&'a self, checks: &[Check<'_>], lease: LeaseId) -> Answer<'a, Spent> {
        let asked: SmallVec<[CheckBuf; 4]> = checks.iter().map(Check::to_buf).collect();
        let answer = self.ask(checks, Intent::Peek, lease);
        pending(async move {
            let mut spent = answer.await?;
            for (check, outcome) in asked.iter().zip(&mut spent.outcomes) {
                let check = check.as_check();
                if is_leased(&check) {
                    *outcome = self.inner.leases.add_left(&check, *outcome);
                }
            }
            Ok(spent)
        })
    }

    /// Several checks, all or none. What is held here is taken first; the others are put to the
    /// store together, and what was taken goes back when they are refused.
    pub(super) fn spend_among<'a>(
        &'a self,
        checks: &[Check<'_>],
        lease: LeaseId,
    ) -> Answer<'a, Spent> {
        self.look_after();
        let said: SmallVec<[Option<Said>; 4]> =
            checks.iter().map(|check| self.say(check)).collect();
        let all = All {
            store: self,
            checks: checks.iter().map(Check::to_buf).collect(),
            said,
        };
        if all.is_refused_here() {
            return Answer::ready(Ok(all.refuse()));
        }
        let rest: SmallVec<[Check<'_>; 4]> = checks
            .iter()
            .zip(&all.said)
            .filter(|(_, said)| said.is_none())
            .map(|(check, _)| *check)
            .collect();
        if rest.is_empty() {
            return Answer::ready(Ok(all.join(Spent::by_store(SmallVec::new(), Micros::ZERO))));
        }
        match self.ask(&rest, Intent::Spend, lease) {
            Answer::Ready(answer) => Answer::Ready(answer.map(|answer| all.settle(answer))),
            Answer::Pending(answer) => pending(async move { all.settle(answer.await) }),
        }
    }

    /// What is known here of one check among several.
    fn say(&self, check: &Check<'_>) -> Option<Said> {
        if !is_leased(check) || check.cost == 0 {
            return None;
        }
        let (said, trip) = match self.inner.leases.spend_among(check) {
            Turn::Said(said, trip) => (Some(said), trip),
            Turn::Strict(trip) => (None, trip),
            Turn::Wait(_) | Turn::Go(_) => (None, None),
        };
        trip.into_iter().for_each(|trip| self.send(trip));
        said
    }
}

/// A request over several checks, and what was said here to some of them.
struct All<'s> {
    store: &'s RedisStore,
    checks: SmallVec<[CheckBuf; 4]>,
    said: SmallVec<[Option<Said>; 4]>,
}

impl All<'_> {
    fn is_refused_here(&self) -> bool {
        let mut both = self.checks.iter().zip(&self.said);
        both.any(|(check, said)| {
            !check.shadow && said.is_some_and(|said| !said.outcome.verdict.is_allowed())
        })
    }

    /// The answer once the store has given its part, or has not.
    fn settle(self, answer: Result<Spent, StoreError>) -> Result<Spent, StoreError> {
        let is_passed = answer.as_ref().is_ok_and(|spent| self.learn(spent));
        let all = if is_passed { self } else { self.undo() };
        answer.map(|spent| all.join(spent))
    }

    /// Notes the denials among what the store said; true when nothing is refused.
    fn learn(&self, spent: &Spent) -> bool {
        let asked = self
            .checks
            .iter()
            .zip(&self.said)
            .filter(|(_, said)| said.is_none());
        let mut is_passed = true;
        for ((check, _), outcome) in asked.zip(&spent.outcomes) {
            if outcome.verdict.is_allowed() {
                continue;
            }
            is_passed &= check.shadow;
            if is_leased(&check.as_check()) {
                self.store
                    .inner
                    .leases
                    .learn_denial(&check.as_check(), outcome);
            }
        }
        is_passed
    }

    /// A denial that is known here. The store is not asked about the others: nothing of them is
    /// known to be missing.
    fn refuse(self) -> Spent {
        let unasked = self.undo();
        let full = |check: &CheckBuf| {
            let limit = check.quota.limit();
            Outcome {
                verdict: Verdict::ALLOW,
                limit,
                remaining: limit,
                reset_after: Micros::ZERO,
            }
        };
        let both = || unasked.checks.iter().zip(&unasked.said);
        let outcomes =
            both().map(|(check, said)| said.map_or_else(|| full(check), |said| said.outcome));
        let mut sources = Sources::all(Source::DenyCache);
        let leases = unasked.said.iter().enumerate();
        for (index, said) in leases.filter_map(|(index, said)| Some((index, (*said)?))) {
            sources.set(index, said.source);
        }
        let at = unasked.said.iter().flatten().map(|said| said.at).max();
        Spent {
            outcomes: outcomes.collect(),
            sources,
            at: at.unwrap_or_default(),
        }
    }

    /// Gives back what was taken here.
    fn undo(mut self) -> Self {
        for (check, said) in self.checks.iter().zip(&mut self.said) {
            let Some(said) = said
                .as_mut()
                .filter(|said| said.outcome.verdict.is_allowed())
            else {
                continue;
            };
            if !self.store.inner.leases.unspend(&check.as_check(), said) {
                drop(self.store.give_back(&[check.as_check()]));
            }
            let Outcome {
                limit, remaining, ..
            } = said.outcome;
            said.outcome.remaining = remaining.saturating_add(check.cost).min(limit);
        }
        self
    }

    /// What was said here and what the store said, in the order of the request.
    fn join(&self, spent: Spent) -> Spent {
        let (mut there, mut sources, mut at) =
            (spent.outcomes.into_iter(), Sources::default(), spent.at);
        let in_order = self.said.iter().enumerate().filter_map(|(index, said)| {
            let Some(said) = said else {
                return there.next();
            };
            sources.set(index, said.source);
            at = at.max(said.at);
            Some(said.outcome)
        });
        Spent {
            outcomes: in_order.collect(),
            sources,
            at,
        }
    }
}
