//! Decides requests with one demand, which most requests have.

use super::context::DemandContext;
use super::counters::Counters;
use super::locked_shard::LockedShard;
use super::shard::CounterShard;
use crate::algorithm::{Outcome, PermitId};
use crate::demand::Demand;
use crate::key::Fingerprint;
use crate::store::Intent;
use crate::time::Micros;

impl Counters {
    /// Decides one demand: by the hot key of its shard, or under one lock. `map` selects the part of
    /// the outcome that the caller needs, so that the compiler drops the computation of the rest.
    #[inline(always)]
    pub(super) fn spend_one<T>(
        &self,
        demand: &Demand<'_>,
        fingerprint: Fingerprint,
        intent: Intent,
        permit_id: PermitId,
        clock: impl Fn() -> Micros,
        map: impl Copy + FnOnce(Outcome) -> T,
    ) -> T {
        if demand.limit.lockout().is_some() {
            return map(self.spend_with_lockout(demand, fingerprint, intent, permit_id, clock));
        }
        self.release_expired(demand, fingerprint, intent.is_reserve(), &clock);
        let now = clock();
        self.sweep_if_due(now);

        // Slow paths take a copy of it, so that this one keeps it in registers.
        let context = self.context(demand, fingerprint, intent, permit_id, now);
        let locked = &self.shards[self.shard_index(fingerprint)];
        if intent == Intent::Spend
            && locked.hot_key.may_hold(fingerprint)
            && let Some(result) = locked.hot_key.try_spend(context, map)
        {
            return result;
        }

        let (mut shard, is_contended) = locked.lock_hot();
        let index = shard.find(fingerprint);
        let result = if is_contended || locked.hot_key.is_hot() {
            let lock = (locked, &mut *shard, is_contended);
            map(self.spend_contended(lock, index, context, clock))
        } else {
            let fast = index
                .filter(|_| intent == Intent::Spend)
                .and_then(|index| shard.spend_at(index, &context, map));
            match fast {
                Some(result) => result,
                None => map(self.spend_slow(&mut shard, index, context, clock)),
            }
        };

        shard.update_hot_slot(index, fingerprint);
        result
    }

    /// Decides a demand whose shard is contended or has a hot key.
    #[cold]
    fn spend_contended(
        &self,
        (locked, shard, is_contended): (&LockedShard, &mut CounterShard, bool),
        index: Option<usize>,
        context: DemandContext<'_>,
        clock: impl Fn() -> Micros,
    ) -> Outcome {
        let fast = index
            .filter(|_| context.intent == Intent::Spend)
            .and_then(|index| locked.hot_key.spend(shard, index, &context, is_contended));

        fast.unwrap_or_else(|| {
            locked.hot_key.cool(shard);
            self.spend_slow(shard, index, context, clock)
        })
    }

    /// Decides a demand that the fast path does not cover: a new key, a log, a permit or a peek.
    #[cold]
    fn spend_slow(
        &self,
        shard: &mut CounterShard,
        index: Option<usize>,
        context: DemandContext<'_>,
        clock: impl Fn() -> Micros,
    ) -> Outcome {
        let context = DemandContext {
            now: clock(),
            ..context
        };
        let evaluation = self.evaluate(shard, index, &context);
        self.finish(
            shard,
            &evaluation,
            &context,
            context.intent.is_conditional(),
        )
    }
}
