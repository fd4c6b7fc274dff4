//! Leased and eventual checks: first what is held and known here, then the store.

use smallvec::SmallVec;
use tokio::time::timeout_at;
use tollgate::lease::{LeaseOutcome, LeaseStep};
use tollgate::store::{Intent, OutcomeSources, SpendReply, StoreFuture};
use tollgate::{
    Consistency, Demand, DemandBuf, Micros, Outcome, PermitId, Source, StoreError, Verdict,
};

use super::travel::joined;
use super::{RedisStore, pending};

/// How often a request waits for somebody else's trip before it makes one of its own.
const WAITS_MAX: usize = 3;

/// True for what may be answered without a trip.
#[inline]
pub(super) fn is_leased(check: &Demand<'_>) -> bool {
    matches!(
        check.key.consistency(),
        Consistency::Leased | Consistency::Eventual
    )
}

impl RedisStore {
    /// One check that is not known here: by a trip that takes more than it needs, its own or
    /// somebody else's.
    pub(super) fn spend_leased<'a>(&'a self, check: &Demand<'_>) -> StoreFuture<'a, SpendReply> {
        let (check, deadline) = (check.to_buf(), self.deadline());
        self.look_after();
        pending(async move {
            for _ in 0..WAITS_MAX {
                match self.inner.leases.spend(&check.as_demand()) {
                    LeaseStep::Decided(said, trip) => {
                        trip.into_iter().for_each(|trip| self.send(trip));
                        return Ok(said.into());
                    }
                    LeaseStep::Call(trip) => {
                        return Ok(joined(self.travel(trip, deadline)).await?.into());
                    }
                    LeaseStep::Wait(flight) => {
                        let landed = timeout_at(deadline, flight.completion()).await;
                        landed.map_err(|_| StoreError::Timeout)?;
                    }
                    LeaseStep::Strict(_) => break,
                }
            }
            self.ask(&[check.as_demand()], Intent::Spend, PermitId::NONE)
                .await
        })
    }

    /// Looks, and counts what is held here with what is there.
    pub(super) fn look<'a>(
        &'a self,
        checks: &[Demand<'_>],
        lease: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        let asked: SmallVec<[DemandBuf; 4]> = checks.iter().map(Demand::to_buf).collect();
        let answer = self.ask(checks, Intent::Peek, lease);
        pending(async move {
            let mut spent = answer.await?;
            for (check, outcome) in asked.iter().zip(&mut spent.outcomes) {
                let check = check.as_demand();
                if is_leased(&check) {
                    *outcome = self.inner.leases.add_held(&check, *outcome);
                }
            }
            Ok(spent)
        })
    }

    /// Several checks, all or none. What is held here is taken first; the others are put to the
    /// store together, and what was taken goes back when they are refused.
    pub(super) fn spend_jointly<'a>(
        &'a self,
        checks: &[Demand<'_>],
        lease: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        self.look_after();
        let said: SmallVec<[Option<LeaseOutcome>; 4]> =
            checks.iter().map(|check| self.say(check)).collect();
        let all = All {
            store: self,
            checks: checks.iter().map(Demand::to_buf).collect(),
            said,
        };
        if all.is_refused_here() {
            return StoreFuture::ready(Ok(all.refuse()));
        }
        let rest: SmallVec<[Demand<'_>; 4]> = checks
            .iter()
            .zip(&all.said)
            .filter(|(_, said)| said.is_none())
            .map(|(check, _)| *check)
            .collect();
        if rest.is_empty() {
            return StoreFuture::ready(Ok(
                all.join(SpendReply::by_store(SmallVec::new(), Micros::ZERO))
            ));
        }
        match self.ask(&rest, Intent::Spend, lease) {
            StoreFuture::Ready(answer) => {
                StoreFuture::Ready(answer.map(|answer| all.settle(answer)))
            }
            StoreFuture::Pending(answer) => pending(async move { all.settle(answer.await) }),
        }
    }

    /// What is known here of one check among several.
    fn say(&self, check: &Demand<'_>) -> Option<LeaseOutcome> {
        if !is_leased(check) || check.cost == 0 {
            return None;
        }
        let (said, trip) = match self.inner.leases.spend_jointly(check) {
            LeaseStep::Decided(said, trip) => (Some(said), trip),
            LeaseStep::Strict(trip) => (None, trip),
            LeaseStep::Wait(_) | LeaseStep::Call(_) => (None, None),
        };
        trip.into_iter().for_each(|trip| self.send(trip));
        said
    }
}

/// A request over several checks, and what was said here to some of them.
struct All<'s> {
    store: &'s RedisStore,
    checks: SmallVec<[DemandBuf; 4]>,
    said: SmallVec<[Option<LeaseOutcome>; 4]>,
}

impl All<'_> {
    fn is_refused_here(&self) -> bool {
        let mut both = self.checks.iter().zip(&self.said);
        both.any(|(check, said)| {
            !check.shadow && said.is_some_and(|said| !said.outcome.verdict.is_allowed())
        })
    }

    /// The answer once the store has given its part, or has not.
    fn settle(self, answer: Result<SpendReply, StoreError>) -> Result<SpendReply, StoreError> {
        let is_passed = answer.as_ref().is_ok_and(|spent| self.learn(spent));
        let all = if is_passed { self } else { self.undo() };
        answer.map(|spent| all.join(spent))
    }

    /// Notes the denials among what the store said; true when nothing is refused.
    fn learn(&self, spent: &SpendReply) -> bool {
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
            if is_leased(&check.as_demand()) {
                self.store
                    .inner
                    .leases
                    .learn_denial(&check.as_demand(), outcome);
            }
        }
        is_passed
    }

    /// A denial that is known here. The store is not asked about the others: nothing of them is
    /// known to be missing.
    fn refuse(self) -> SpendReply {
        let unasked = self.undo();
        let full = |check: &DemandBuf| {
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
        let mut sources = OutcomeSources::all(Source::DenyCache);
        let leases = unasked.said.iter().enumerate();
        for (index, said) in leases.filter_map(|(index, said)| Some((index, (*said)?))) {
            sources.set(index, said.source);
        }
        let at = unasked.said.iter().flatten().map(|said| said.at).max();
        SpendReply {
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
            if !self.store.inner.leases.undo_spend(&check.as_demand(), said) {
                drop(self.store.give_back(&[check.as_demand()]));
            }
            let Outcome {
                limit, remaining, ..
            } = said.outcome;
            said.outcome.remaining = remaining.saturating_add(check.cost).min(limit);
        }
        self
    }

    /// What was said here and what the store said, in the order of the request.
    fn join(&self, spent: SpendReply) -> SpendReply {
        let (mut there, mut sources, mut at) = (
            spent.outcomes.into_iter(),
            OutcomeSources::default(),
            spent.at,
        );
        let in_order = self.said.iter().enumerate().filter_map(|(index, said)| {
            let Some(said) = said else {
                return there.next();
            };
            sources.set(index, said.source);
            at = at.max(said.at);
            Some(said.outcome)
        });
        SpendReply {
            outcomes: in_order.collect(),
            sources,
            at,
        }
    }
}
