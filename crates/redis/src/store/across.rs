//! A request whose checks are in several slots of a cluster.
//!
//! No script can spend them together. They are spent one slot after the other, narrowest limit
//! first, and what was taken is given back when a later slot refuses. Between the two somebody else
//! may be refused who would have passed; nobody passes who should not.

use smallvec::SmallVec;
use tollgate::store::{Intent, SpendReply};
use tollgate::{Demand, DemandBuf, Micros, Outcome, PermitId, Quota, StoreError};

use super::attempt::Attempt;
use super::{RedisStore, spent};
use crate::failure::Failure;
use crate::wire::{Answered, Asked, Verb};

/// The checks of one slot.
struct Group {
    /// Where they stand in the request.
    places: SmallVec<[usize; 4]>,
    checks: SmallVec<[DemandBuf; 4]>,
    asked: SmallVec<[Asked; 4]>,
}

/// A group that was asked, and what it said.
struct Done {
    group: Group,
    answered: Answered,
    is_charged: bool,
}

/// Spends, or looks at, all groups.
pub(super) fn spend(
    store: RedisStore,
    checks: &[Demand<'_>],
    slots: &[u16],
    intent: Intent,
    lease: PermitId,
) -> impl Future<Output = Result<SpendReply, StoreError>> + Send + use<> {
    let (count, groups) = (checks.len(), grouped(checks, slots));
    async move {
        let mut taken = Taken {
            store,
            lease,
            done: Vec::with_capacity(groups.len()),
        };
        let result = taken.ask_all(groups, intent).await;
        // What was taken stays taken only when everything was.
        let charged = intent == Intent::Spend && matches!(result, Ok(true));
        if charged {
            let outcomes = taken.outcomes(count, Intent::Spend)?;
            taken.keep();
            return Ok(outcomes);
        }
        result?;
        Ok(taken.outcomes(count, Intent::Peek)?)
    }
}

/// What has been taken so far; given back when it is dropped, also because nobody waits any more.
struct Taken {
    store: RedisStore,
    lease: PermitId,
    done: Vec<Done>,
}

impl Taken {
    /// Asks group after group. From the first that refuses on, the others are only looked at. True
    /// when all pass.
    async fn ask_all(&mut self, groups: Vec<Group>, intent: Intent) -> Result<bool, Failure> {
        let deadline = tokio::time::Instant::now() + self.store.inner.timeout;
        let mut passes = true;
        for group in groups {
            let verb = if passes && intent == Intent::Spend {
                Verb::Spend
            } else {
                Verb::Peek
            };
            let request = {
                let checks: SmallVec<[Demand<'_>; 4]> =
                    group.checks.iter().map(DemandBuf::as_demand).collect();
                self.store.inner.keys.request(verb, &checks, self.lease)
            };
            let answered = Attempt::start(self.store.inner.clone(), request, deadline)
                .run()
                .await?;
            passes &= answered.passed;
            let is_charged = verb == Verb::Spend && answered.passed;
            self.done.push(Done {
                group,
                answered,
                is_charged,
            });
        }
        Ok(passes)
    }

    /// The outcomes in the order of the request.
    fn outcomes(&self, count: usize, intent: Intent) -> Result<SpendReply, Failure> {
        let mut placed: Vec<(usize, Outcome)> = Vec::with_capacity(count);
        let mut at = Micros::ZERO;
        for Done {
            group, answered, ..
        } in &self.done
        {
            let spent = spent(answered, &group.asked, intent)?;
            at = at.max(spent.at);
            placed.extend(group.places.iter().copied().zip(spent.outcomes));
        }
        placed.sort_by_key(|(place, _)| *place);
        Ok(SpendReply::by_store(
            placed.into_iter().map(|(_, outcome)| outcome).collect(),
            at,
        ))
    }

    fn keep(mut self) {
        self.done.clear();
    }

    /// Gives back what a group was charged: what passed and costs something.
    fn give_back(
        &self,
        Done {
            group, answered, ..
        }: &Done,
    ) {
        let Ok(spent) = spent(answered, &group.asked, Intent::Spend) else {
            return;
        };
        let both = group.checks.iter().zip(&spent.outcomes);
        let charged =
            both.filter(|(check, outcome)| check.cost > 0 && outcome.verdict.is_allowed());
        for (check, _) in charged {
            let verb = if matches!(check.quota, Quota::Concurrency(_)) {
                Verb::Release
            } else {
                Verb::Refund
            };
            let request = self
                .store
                .inner
                .keys
                .request(verb, &[check.as_demand()], self.lease);
            drop(self.store.effect(request));
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.done
            .iter()
            .filter(|done| done.is_charged)
            .for_each(|done| self.give_back(done));
    }
}

/// The checks by slot, the narrowest limit first; what cannot refuse comes last.
fn grouped(checks: &[Demand<'_>], slots: &[u16]) -> Vec<Group> {
    let mut order: Vec<usize> = (0..checks.len()).collect();
    order.sort_by_key(|place| (checks[*place].shadow, checks[*place].quota.limit()));
    let mut groups: Vec<(u16, Group)> = Vec::new();
    for place in order {
        let slot = slots[place];
        let at = groups
            .iter()
            .position(|(other, _)| *other == slot)
            .unwrap_or_else(|| {
                let group = Group {
                    places: SmallVec::new(),
                    checks: SmallVec::new(),
                    asked: SmallVec::new(),
                };
                groups.push((slot, group));
                groups.len() - 1
            });
        let group = &mut groups[at].1;
        group.places.push(place);
        group.checks.push(checks[place].to_buf());
        group.asked.push(Asked::new(&checks[place]));
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
