//! Lockouts: keys that are denied too often are locked for a time.
//!
//! The lockout of a key is a slot of its own in the key's shard, so it counts towards the cap, is
//! swept and is part of snapshots like a counter. Limits with a lockout go around the hot slot and
//! the hot key, which would not count denials.

use std::slice;

use super::context::DemandContext;
use super::counters::Counters;
use super::shard::CounterShard;
use super::slot::Slot;
use super::slot_quota::Evaluation;
use super::store::MemoryStore;
use crate::algorithm::{KeyLock, Lockout, LockoutState, Outcome, PermitId};
use crate::demand::Demand;
use crate::key::Fingerprint;
use crate::store::Intent;
use crate::time::Micros;

impl Counters {
    /// Decides one demand on a limit with a lockout.
    #[cold]
    #[inline(never)]
    pub(super) fn spend_with_lockout(
        &self,
        demand: &Demand<'_>,
        fingerprint: Fingerprint,
        intent: Intent,
        permit_id: PermitId,
        clock: impl Fn() -> Micros,
    ) -> Outcome {
        let mut decided = None;
        let (demands, report) = (slice::from_ref(demand), |outcome| decided = Some(outcome));
        self.spend_all(demands, &[fingerprint], intent, permit_id, clock, report);
        decided.expect("one demand has one outcome")
    }

    /// Denies a demand whose key is locked, and counts a denial by the limit itself.
    #[cold]
    pub(super) fn apply_lockout(
        &self,
        shard: &mut CounterShard,
        evaluation: &mut Evaluation,
        lockout: &Lockout,
        context: &DemandContext<'_>,
    ) {
        let &DemandContext {
            cost, intent, now, ..
        } = context;
        let stored = stored_state(shard, context);
        let mut state = lockout.update(stored, now);
        let is_denied = cost > 0 && !evaluation.outcome.verdict.is_allowed();
        let was_locked = state.locked_for(now).is_some();
        if is_denied && !was_locked && intent.counts_denials() {
            state = lockout.count_denial(state, now);
        }
        if state != stored && state.until > now {
            self.store_lockout(shard, state, context);
        }

        let Some(rest) = state.locked_for(now) else {
            return;
        };
        // What is only counted is charged although the key is locked, and evaluated again. All
        // others charge nothing, so their outcome must not show a charge.
        if cost > 0 && !is_denied && intent != Intent::Count {
            let verdict = evaluation.outcome.verdict;
            let index = shard.find(context.fingerprint);
            *evaluation = shard.evaluate(index, &context.with_cost(0));
            evaluation.outcome.verdict = verdict;
        }
        let lock = KeyLock::new(rest, !was_locked);
        evaluation.outcome = evaluation.outcome.locked_out(cost, lock);
    }

    /// The outcome of a demand that was only counted: a denial if its key is locked.
    pub(super) fn with_lock(
        shard: &mut CounterShard,
        outcome: Outcome,
        context: &DemandContext<'_>,
    ) -> Outcome {
        let state = Self::lockout_state(shard, context);
        let Some(rest) = state.and_then(|state| state.locked_for(context.now)) else {
            return outcome;
        };

        // As after the charge, and without another one.
        let index = shard.find(context.fingerprint);
        let charged = shard.evaluate(index, &context.with_intent(Intent::Peek).with_cost(0));
        let verdict = outcome.verdict;
        let outcome = Outcome {
            verdict,
            ..charged.outcome
        };
        outcome.locked_out(context.cost, KeyLock::new(rest, false))
    }

    /// The lockout of a demand's key now; `None` if its limit has none.
    pub(super) fn lockout_state(
        shard: &CounterShard,
        context: &DemandContext<'_>,
    ) -> Option<LockoutState> {
        let lockout = context.limit.lockout()?;
        Some(lockout.update(stored_state(shard, context), context.now))
    }

    fn store_lockout(
        &self,
        shard: &mut CounterShard,
        state: LockoutState,
        context: &DemandContext<'_>,
    ) {
        let fingerprint = context.fingerprint.for_lockout();
        let slot = Slot::lockout(fingerprint, state);
        if let Some(index) = shard.find(fingerprint) {
            shard.set(index, slot);
        } else {
            let limit = self.limit_number(context);
            self.charge_slot(shard, limit, fingerprint, context.now);
            shard.insert_lockout(slot, limit);
        }
    }
}

impl MemoryStore {
    /// Locks the key of a demand as long as another store has locked it.
    pub(crate) fn lock_out(&self, demand: &Demand<'_>, lock: KeyLock) {
        let (Some(lockout), Some(rest)) = (demand.limit.lockout(), lock.rest()) else {
            return;
        };

        let (counters, now) = (self.counters(), self.now());
        let fingerprint = counters.fingerprinter.fingerprint(&demand.key);
        let context = counters.peek_context(demand, fingerprint, now);
        let mut shard = counters.lock(fingerprint);
        let state = LockoutState::locked(lockout, rest, now);
        counters.store_lockout(&mut shard, state, &context);
    }
}

fn stored_state(shard: &CounterShard, context: &DemandContext<'_>) -> LockoutState {
    let index = shard.find(context.fingerprint.for_lockout());
    index.map_or_else(LockoutState::default, |index| {
        shard.slot(index).lockout_state()
    })
}
