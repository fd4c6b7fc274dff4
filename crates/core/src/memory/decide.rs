//! Decides requests with one demand, which most requests have.

use super::context::DemandContext;
use super::counters::Counters;
use super::small::SlotFormat;
use crate::algorithm::{Outcome, PermitId, Quota};
use crate::demand::Demand;
use crate::key::Fingerprint;
use crate::store::Intent;
use crate::time::Micros;

/// How often a thread tries to decide without the lock, at growing intervals, before it takes it.
const ATTEMPTS: u32 = 5;
/// How long the first interval is. A thread that is faster makes several decisions meanwhile,
/// instead of passing the cache lines to and fro with each of them.
const SPINS: u32 = 16;

impl Counters {
    /// Decides one demand. `map` selects the part of the outcome that the caller needs, so that the
    /// compiler drops the computation of the rest.
    #[inline(always)]
    pub(super) fn spend_one<T>(
        &self,
        demand: &Demand<'_>,
        intent: Intent,
        permit_id: PermitId,
        map: impl Copy + FnOnce(Outcome) -> T,
    ) -> T {
        // Hash first, then read the clock: reading the processor's counter stalls what comes after
        // it, and the key may not be in the processor's cache.
        let fingerprint = self.fingerprinter.fingerprint(&demand.key);
        let now = self.clock.now();
        self.sweep_if_due(now);
        if matches!(intent, Intent::Spend | Intent::Peek)
            && demand.limit.lockout().is_none()
            && !self.may_release_expired(demand.limit)
            && let Some(result) = self.try_unlocked(demand, intent, (fingerprint, now), map)
        {
            return result;
        }
        map(self.spend_locked(demand, fingerprint, intent, permit_id))
    }

    /// Decides a demand on a known key whose state is in a slot, without the lock of its shard.
    #[inline(always)]
    fn try_unlocked<T>(
        &self,
        demand: &Demand<'_>,
        intent: Intent,
        (fingerprint, now): (Fingerprint, Micros),
        map: impl Copy + FnOnce(Outcome) -> T,
    ) -> Option<T> {
        let request = (demand.cost, intent, now);
        match demand.quota() {
            Quota::TokenBucket(quota) => self.try_slot(quota, fingerprint, request, map),
            Quota::SlidingWindow(quota) => self.try_slot(quota, fingerprint, request, map),
            Quota::FixedWindow(quota) => self.try_slot(quota, fingerprint, request, map),
            Quota::LeakyBucket(quota) => self.try_slot(quota, fingerprint, request, map),
            Quota::SlidingLog(_) | Quota::Concurrency(_) => None,
        }
    }

    /// Decides a demand whose counter is in a slot, without the lock. A denial or a peek is decided
    /// from one version of the shard, and writes nothing. A charge holds the shard while it stores
    /// the next state, if the version is still the same. `None` if the key is new, the clock was
    /// set back, the parameters of the quota have changed, or other threads are faster.
    #[inline(always)]
    fn try_slot<Q: SlotFormat, T>(
        &self,
        quota: &Q,
        fingerprint: Fingerprint,
        (cost, intent, now): (u64, Intent, Micros),
        map: impl FnOnce(Outcome) -> T,
    ) -> Option<T> {
        let shard = &self.shards[self.shard_index(fingerprint)];
        for attempt in 0..ATTEMPTS {
            if let Some(version) = shard.sequence.begin() {
                let slot = shard.table.find(fingerprint)?;
                let state = quota.read(&slot.state())?;
                let (next, verdict) = quota.apply(state, cost, now);

                if verdict.is_allowed() && cost > 0 && intent == Intent::Spend {
                    if let Some(hold) = shard.sequence.try_hold(version) {
                        slot.set_state(quota.write(next));
                        drop(hold);
                        return Some(map(quota.outcome(next, verdict, now)));
                    }
                } else {
                    // A peek reports what is left without the charge.
                    let is_peek = intent == Intent::Peek;
                    let next = if is_peek {
                        quota.apply(state, 0, now).0
                    } else {
                        next
                    };
                    if Q::moment(&next) < Q::moment(&state) {
                        return None;
                    }
                    if shard.sequence.is_unchanged(version) {
                        return Some(map(quota.outcome(next, verdict, now)));
                    }
                }
            }
            (0..SPINS << attempt).for_each(|_| std::hint::spin_loop());
        }
        None
    }

    /// Decides a demand under the lock of its shard: a new key, a state that does not fit into a
    /// slot, a lockout, or one for which threads contend.
    #[cold]
    #[inline(never)]
    fn spend_locked(
        &self,
        demand: &Demand<'_>,
        fingerprint: Fingerprint,
        intent: Intent,
        permit_id: PermitId,
    ) -> Outcome {
        self.release_expired(demand, fingerprint, intent.is_reserve());
        let mut shard = self.lock(fingerprint);
        // A log must not see time go back: hits that one thread dropped as expired would make room
        // for a hit with an earlier timestamp. So the clock is read under the lock.
        let now = self.clock.now();
        let context = DemandContext::new(demand, fingerprint, intent, permit_id, now);
        let evaluation = self.evaluate(&mut shard, &context);
        self.finish(&mut shard, &evaluation, &context, intent.is_conditional())
    }
}
