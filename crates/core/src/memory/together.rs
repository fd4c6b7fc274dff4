//! Several checks at once: look at all of them, then keep what they did, or nothing.

use smallvec::SmallVec;

use super::budget::Budget;
use super::fingerprint::Fingerprint;
use super::shard::{Looked, Newcomers, Shard, Spend};
use crate::algorithm::{Outcome, PermitId};
use crate::store::{Demand, Intent};
use crate::time::Micros;

/// The shards of a request, which nobody else can touch meanwhile.
pub(super) trait Shards {
    /// The shard of a counter.
    fn of(&mut self, print: Fingerprint) -> &mut Shard;

    /// Forgets something other than `needy`, so that it has room.
    fn make_room(&mut self, needy: Fingerprint, now: Micros);
}

/// Checks with their counters, and all that they are decided by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Together<'a> {
    pub(super) checks: &'a [Demand<'a>],
    pub(super) prints: &'a [Fingerprint],
    pub(super) intent: Intent,
    pub(super) lease: PermitId,
    pub(super) now: Micros,
    pub(super) budget: &'a Budget,
    pub(super) newcomers: Newcomers,
}

impl<'a> Together<'a> {
    /// Spends all or nothing, and tells the outcomes in the order asked.
    #[inline]
    pub(super) fn spend(&self, shards: &mut impl Shards, mut tell: impl FnMut(Outcome)) {
        let mut looked: SmallVec<[Looked; 4]> = SmallVec::new();
        let mut passes = self.intent == Intent::Spend;
        for spend in self.each() {
            let shard = shards.of(spend.print);
            let found = shard.look(shard.find(spend.print), &spend, self.newcomers);
            passes &= spend.check.shadow || found.outcome().verdict.is_allowed();
            looked.push(found);
        }
        for (spend, looked) in self.each().zip(&looked) {
            tell(self.settle(shards, looked, &spend, passes));
        }
    }

    fn each(&self) -> impl Iterator<Item = Spend<'a>> {
        let Self {
            checks,
            prints,
            lease,
            now,
            budget,
            ..
        } = *self;
        let both = checks.iter().zip(prints);
        both.map(move |(check, print)| Spend {
            check,
            print: *print,
            lease,
            now,
            budget,
        })
    }

    /// Keeps or drops what one of the checks found, now that it is known whether all pass.
    #[inline]
    fn settle(
        &self,
        shards: &mut impl Shards,
        looked: &Looked,
        spend: &Spend<'_>,
        passes: bool,
    ) -> Outcome {
        let fits = looked.outcome().verdict.is_allowed() && spend.check.cost > 0;
        if fits && !passes {
            let shard = shards.of(spend.print);
            let at = shard.find(spend.print);
            return shard.uncharged(at, looked.outcome().verdict, spend, self.newcomers);
        }
        if fits || looked.must_keep() {
            commit(shards, looked, spend);
        }
        looked.outcome()
    }
}

/// Keeps what was found. The counter is looked up again: making room for another may have moved or
/// dropped it.
#[inline]
pub(super) fn commit(shards: &mut impl Shards, looked: &Looked, spend: &Spend<'_>) {
    let &Spend {
        print, now, budget, ..
    } = spend;
    let at = shards.of(print).find(print);
    if at.is_none() && budget.take(1) > 0 {
        shards.make_room(print, now);
    }
    if shards.of(print).commit(at, looked, spend) > 0 {
        shards.make_room(print, now);
    }
}
