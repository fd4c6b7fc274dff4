//! Lockouts: keys that are denied too often are locked for a time.
//!
//! The lockout of a key is an entry of its own in the key's shard, so it counts towards the cap, is
//! swept and is part of snapshots like a counter. Demands on limits with a lockout always take the
//! lock of the shard, because denials must be counted.

use super::context::DemandContext;
use super::counters::Counters;
use super::large::{LargeEntry, LargeState};
use super::shard::LockedShard;
use super::small::Evaluation;
use super::store::MemoryStore;
use crate::algorithm::{KeyLock, Lockout, LockoutState, Outcome};
use crate::demand::Demand;
use crate::store::Intent;

impl Counters {
    /// Denies a demand whose key is locked, and counts a denial by the limit itself.
    #[cold]
    pub(super) fn apply_lockout(
        &self,
        shard: &mut LockedShard<'_>,
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
            *evaluation = shard.evaluate(&context.with_cost(0));
            evaluation.outcome.verdict = verdict;
        }
        let lock = KeyLock::new(rest, !was_locked);
        evaluation.outcome = evaluation.outcome.locked_out(cost, lock);
    }

    /// The outcome of a demand that was only counted: a denial if its key is locked.
    pub(super) fn with_lock(
        shard: &mut LockedShard<'_>,
        outcome: Outcome,
        context: &DemandContext<'_>,
    ) -> Outcome {
        let state = Self::lockout_state(shard, context);
        let Some(rest) = state.and_then(|state| state.locked_for(context.now)) else {
            return outcome;
        };

        // As after the charge, and without another one.
        let charged = shard.evaluate(&context.with_intent(Intent::Peek).with_cost(0));
        let verdict = outcome.verdict;
        let outcome = Outcome {
            verdict,
            ..charged.outcome
        };
        outcome.locked_out(context.cost, KeyLock::new(rest, false))
    }

    /// The lockout of a demand's key now; `None` if its limit has none.
    pub(super) fn lockout_state(
        shard: &mut LockedShard<'_>,
        context: &DemandContext<'_>,
    ) -> Option<LockoutState> {
        let lockout = context.limit.lockout()?;
        Some(lockout.update(stored_state(shard, context), context.now))
    }

    fn store_lockout(
        &self,
        shard: &mut LockedShard<'_>,
        state: LockoutState,
        context: &DemandContext<'_>,
    ) {
        let fingerprint = context.fingerprint.for_lockout();
        let limit = self.limit_number(context.limit);
        if shard.large(fingerprint).is_none() {
            self.charge_key(shard, limit, fingerprint, context.now);
            let entry = LargeEntry::new(LargeState::Lockout(state), limit);
            shard.insert_large(fingerprint, entry);
        }
        if let Some(entry) = shard.large(fingerprint) {
            entry.state = LargeState::Lockout(state);
            entry.update(context.quota, &self.key_cap);
        }
    }
}

impl MemoryStore {
    /// Locks the key of a demand as long as another store has locked it.
    pub(crate) fn lock_out(&self, demand: &Demand<'_>, lock: KeyLock) {
        let (Some(lockout), Some(rest)) = (demand.limit.lockout(), lock.rest()) else {
            return;
        };

        let counters = self.counters();
        let now = counters.clock.now();
        let fingerprint = counters.fingerprinter.fingerprint(&demand.key);
        let context = DemandContext::peek(demand, fingerprint, now);
        let mut shard = counters.lock(fingerprint);
        let state = LockoutState::locked(lockout, rest, now);
        counters.store_lockout(&mut shard, state, &context);
    }
}

fn stored_state(shard: &mut LockedShard<'_>, context: &DemandContext<'_>) -> LockoutState {
    let entry = shard.large(context.fingerprint.for_lockout());
    match entry.map(|entry| &entry.state) {
        Some(LargeState::Lockout(state)) => *state,
        _ => LockoutState::default(),
    }
}
