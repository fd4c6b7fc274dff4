//! Several demands as one step: evaluates all of them, then commits all or none.

use smallvec::SmallVec;

use super::fingerprint::Fingerprint;
use super::key_cap::KeyCap;
use super::shard::{CounterShard, DemandContext, Evaluation, InitialState};
use crate::algorithm::{Outcome, PermitId};
use crate::demand::Demand;
use crate::store::Intent;
use crate::time::Micros;

/// Exclusive access to the shards of a request.
pub(super) trait ShardAccess {
    /// The shard of a counter.
    fn shard_for(&mut self, fingerprint: Fingerprint) -> &mut CounterShard;

    /// Evicts keys other than `needy` to make room for it.
    fn make_room(&mut self, needy: Fingerprint, now: Micros);
}

/// The demands of one request, and everything needed to decide them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transaction<'a> {
    pub(super) demands: &'a [Demand<'a>],
    /// The fingerprints of the demands' keys, in the same order.
    pub(super) fingerprints: &'a [Fingerprint],
    pub(super) intent: Intent,
    pub(super) permit_id: PermitId,
    pub(super) now: Micros,
    pub(super) key_cap: &'a KeyCap,
    pub(super) initial_state: InitialState,
}

impl<'a> Transaction<'a> {
    /// Spends all demands or none, and passes their outcomes to `report` in the order of the
    /// demands.
    #[inline]
    pub(super) fn spend(&self, shards: &mut impl ShardAccess, mut report: impl FnMut(Outcome)) {
        let mut evaluations: SmallVec<[Evaluation; 4]> = SmallVec::new();
        let mut is_charged = self.intent == Intent::Spend;
        for context in self.contexts() {
            let shard = shards.shard_for(context.fingerprint);
            let index = shard.find(context.fingerprint);
            let evaluation = shard.evaluate(index, &context, self.initial_state);
            is_charged &=
                context.demand.limit.is_shadow() || evaluation.outcome().verdict.is_allowed();
            evaluations.push(evaluation);
        }

        for (context, evaluation) in self.contexts().zip(&evaluations) {
            report(self.finish(shards, evaluation, &context, is_charged));
        }
    }

    fn contexts(&self) -> impl Iterator<Item = DemandContext<'a>> {
        let Self {
            permit_id,
            now,
            key_cap,
            ..
        } = *self;

        let pairs = self.demands.iter().zip(self.fingerprints);
        pairs.map(move |(demand, fingerprint)| DemandContext {
            demand,
            fingerprint: *fingerprint,
            permit_id,
            now,
            key_cap,
        })
    }

    /// Commits or discards the evaluation of one demand. `is_charged` is true when the request as
    /// a whole is charged.
    #[inline]
    fn finish(
        &self,
        shards: &mut impl ShardAccess,
        evaluation: &Evaluation,
        context: &DemandContext<'_>,
        is_charged: bool,
    ) -> Outcome {
        let outcome = evaluation.outcome();
        let fits = outcome.verdict.is_allowed() && context.demand.cost > 0;
        if fits && !is_charged {
            let shard = shards.shard_for(context.fingerprint);
            let index = shard.find(context.fingerprint);
            return shard.evaluate_uncharged(index, outcome.verdict, context, self.initial_state);
        }

        if fits || evaluation.must_store() {
            commit(shards, evaluation, context);
        }
        outcome
    }
}

/// Stores the result of an evaluation. Looks the counter up again: making room for another counter
/// may have moved or evicted it.
#[inline]
pub(super) fn commit(
    shards: &mut impl ShardAccess,
    evaluation: &Evaluation,
    context: &DemandContext<'_>,
) {
    let &DemandContext {
        fingerprint,
        now,
        key_cap,
        ..
    } = context;

    let index = shards.shard_for(fingerprint).find(fingerprint);
    if index.is_none() && key_cap.charge(1) > 0 {
        shards.make_room(fingerprint, now);
    }
    let excess = shards
        .shard_for(fingerprint)
        .commit(index, evaluation, context);
    if excess > 0 {
        shards.make_room(fingerprint, now);
    }
}
