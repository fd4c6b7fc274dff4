//! The counters of a store: which shard has a counter, and how the demands of a request are decided
//! together.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use smallvec::SmallVec;

use super::context::{DemandContext, ShardSettings};
use super::hot_key::SplitPolicy;
use super::key_cap::{CapCharge, KeyCap};
use super::limit_usage::LimitNumber;
use super::locked_shard::{LockedShard, ShardGuard};
use super::shard::{CounterShard, PermitChange};
use super::slot_quota::Evaluation;
use crate::algorithm::{Outcome, PermitId, Quota, Verdict};
use crate::demand::Demand;
use crate::key::{Fingerprint, Fingerprinter, Key};
use crate::store::Intent;
use crate::time::Micros;

/// The number of keys for which one more shard is worthwhile.
const KEYS_PER_SHARD_MIN: usize = 1_024;
/// The most shards of a store.
const SHARDS_MAX: usize = 256;
/// Every shard is swept about this often while the store is in use.
const SWEEP_EVERY: Micros = Micros::from_secs(30);
/// When to retry a permit or a reservation for which the store has no room. They end at any time.
pub(super) const RETRY_WITHOUT_ROOM: Micros = Micros::from_secs(1);

/// All counters of a store. Time is an argument: where it is a function, it is called once the
/// shards are locked, because a log must not see time go back. Hits that one thread dropped as
/// expired would make room for a hit with an earlier timestamp.
pub(super) struct Counters {
    pub(super) fingerprinter: Fingerprinter,
    /// The number of shards is a power of two.
    pub(super) shards: Box<[LockedShard]>,
    pub(super) settings: ShardSettings,
    /// When the next shard is due to be swept, in microseconds.
    sweep_at: AtomicU64,
    /// The number of shards swept so far, which selects the next one.
    shards_swept: AtomicUsize,
}

impl Counters {
    /// No counters, of which there may be `keys_max`.
    pub(super) fn new(
        keys_max: usize,
        split_policy: SplitPolicy,
        fingerprinter: Fingerprinter,
    ) -> Self {
        let shards = (keys_max / KEYS_PER_SHARD_MIN)
            .clamp(1, SHARDS_MAX)
            .next_power_of_two();

        Self {
            fingerprinter,
            shards: (0..shards)
                .map(|_| LockedShard::new(&split_policy))
                .collect(),
            settings: ShardSettings {
                key_cap: KeyCap::new(keys_max),
                split_policy,
                reservations: AtomicUsize::new(0),
            },
            sweep_at: AtomicU64::new(0),
            shards_swept: AtomicUsize::new(0),
        }
    }

    pub(super) const fn key_cap(&self) -> &KeyCap {
        &self.settings.key_cap
    }

    pub(super) fn keys(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.lock_hot().0.keys()).sum()
    }

    /// The size of the table in bytes, without the logs and permits outside it.
    pub(super) fn table_bytes(&self) -> usize {
        let shards = self.shards.iter();
        let tables = shards.map(|shard| shard.lock_hot().0.table_bytes());
        tables.sum::<usize>() + size_of_val(&*self.shards)
    }

    pub(super) fn shard_index(&self, fingerprint: Fingerprint) -> usize {
        // The number of shards is a power of two.
        fingerprint.high as usize & (self.shards.len() - 1)
    }

    pub(super) fn lock(&self, fingerprint: Fingerprint) -> ShardGuard<'_> {
        self.shards[self.shard_index(fingerprint)].lock()
    }

    /// Reads the memory where the search for a counter begins, without locking.
    #[inline]
    pub(super) fn touch(&mut self, fingerprint: Fingerprint) -> u64 {
        let index = self.shard_index(fingerprint);
        self.shards[index].touch(fingerprint)
    }

    #[inline(always)]
    pub(super) fn context<'a>(
        &'a self,
        demand: &'a Demand<'_>,
        fingerprint: Fingerprint,
        intent: Intent,
        permit_id: PermitId,
        now: Micros,
    ) -> DemandContext<'a> {
        DemandContext {
            limit: demand.limit,
            quota: demand.quota(),
            cost: demand.cost,
            intent,
            fingerprint,
            permit_id,
            now,
            settings: &self.settings,
        }
    }

    /// A demand of which nothing is charged yet.
    pub(super) fn peek_context<'a>(
        &'a self,
        demand: &'a Demand<'_>,
        fingerprint: Fingerprint,
        now: Micros,
    ) -> DemandContext<'a> {
        self.context(demand, fingerprint, Intent::Peek, PermitId::NONE, now)
    }

    /// Charges a new slot to the cap, and makes room for it if there is none.
    pub(super) fn charge_slot(
        &self,
        shard: &mut CounterShard,
        limit: LimitNumber,
        needy: Fingerprint,
        now: Micros,
    ) {
        if self.key_cap().charge(limit, CapCharge::SLOT) > 0 {
            self.make_room(shard, needy, now);
        }
    }

    /// Decides several demands: evaluates all of them, then commits all or none. Passes their
    /// outcomes to `report` in the order of the demands, and returns the moment of the decision.
    pub(super) fn spend_all(
        &self,
        demands: &[Demand<'_>],
        fingerprints: &[Fingerprint],
        intent: Intent,
        permit_id: PermitId,
        clock: impl Fn() -> Micros,
        report: impl FnMut(Outcome),
    ) -> Micros {
        let mut locks = self.lock_all(demands, fingerprints, intent.is_reserve(), &clock);
        let now = clock();
        let contexts = demands
            .iter()
            .zip(fingerprints)
            .map(|(demand, fingerprint)| {
                self.context(demand, *fingerprint, intent, permit_id, now)
            });

        let mut evaluations: SmallVec<[Evaluation; 4]> = SmallVec::new();
        let mut is_charged = intent.is_conditional();
        for (context, demand) in contexts.clone().zip(demands) {
            let shard = self.locked_shard(&mut locks, context.fingerprint);
            let index = shard.find(context.fingerprint);
            let evaluation = self.evaluate(shard, index, &context);
            is_charged &= demand.limit.is_shadow() || evaluation.outcome.verdict.is_allowed();
            evaluations.push(evaluation);
        }

        let outcomes = contexts.zip(&evaluations).map(|(context, evaluation)| {
            let shard = self.locked_shard(&mut locks, context.fingerprint);
            self.finish(shard, evaluation, &context, is_charged)
        });
        outcomes.for_each(report);

        drop(locks);
        self.sweep_if_due(now);
        now
    }

    /// Evaluates a demand, see [`CounterShard::evaluate`], and counts its denial if the limit has a
    /// lockout. Permits and reservations are never evicted, so those for which there is no room are
    /// denied.
    pub(super) fn evaluate(
        &self,
        shard: &mut CounterShard,
        index: Option<usize>,
        context: &DemandContext<'_>,
    ) -> Evaluation {
        let mut evaluation = shard.evaluate(index, context);
        if let Some(lockout) = context.limit.lockout() {
            self.apply_lockout(shard, &mut evaluation, lockout, context);
        }

        let is_permit = matches!(context.quota, Quota::Concurrency(_)) && context.cost > 0;
        let is_reserved = context.intent.is_reserve();
        if !(is_permit || is_reserved)
            || !evaluation.outcome.verdict.is_allowed()
            || (!is_permit || self.has_room_for_permit(index, context))
                && (!is_reserved || self.has_room_for_reservation())
        {
            return evaluation;
        }

        let mut denied = shard.evaluate(index, &context.with_cost(0));
        denied.outcome.verdict = Verdict::Deny {
            retry_after: RETRY_WITHOUT_ROOM,
        };
        denied
    }

    pub(super) fn has_room_for_permit(
        &self,
        index: Option<usize>,
        context: &DemandContext<'_>,
    ) -> bool {
        let slot = usize::from(index.is_none());
        let limit = self.limit_number(context);
        self.key_cap().has_room_for_permits(limit, slot + 1)
    }

    pub(super) fn limit_number(&self, context: &DemandContext<'_>) -> LimitNumber {
        if !context.limit.has_share() {
            return LimitNumber::OTHERS;
        }
        let prefix = context.limit.prefix();
        let (digest, name) = (prefix.digest(), prefix.name());
        self.key_cap().limit_number(digest, name)
    }

    /// Commits or discards the evaluation of one demand. `is_charged` is true when the request as
    /// a whole is allowed and charged. A demand that is only counted is always charged.
    #[inline]
    pub(super) fn finish(
        &self,
        shard: &mut CounterShard,
        evaluation: &Evaluation,
        context: &DemandContext<'_>,
        is_charged: bool,
    ) -> Outcome {
        let outcome = evaluation.outcome;
        if context.intent == Intent::Count && context.cost > 0 {
            let counted = self.finish_count(shard, evaluation, context);
            return Self::with_lock(shard, counted, context);
        }
        let fits = outcome.verdict.is_allowed() && context.cost > 0;
        if fits && !is_charged {
            // The verdict stays, and what is left is reported without the charge.
            let context = context.with_cost(0);
            let evaluation = shard.evaluate(shard.find(context.fingerprint), &context);
            let uncharged = self.finish(shard, &evaluation, &context, false);
            let verdict = outcome.verdict;
            return Outcome {
                verdict,
                ..uncharged
            };
        }

        if fits || evaluation.must_store {
            self.commit(shard, evaluation, context);
        }
        if let Intent::Reserve { ttl } = context.intent
            && fits
        {
            self.reserve(shard, context, ttl);
        }
        outcome
    }

    /// Stores the result of an evaluation. Looks the counter up again: making room for another
    /// counter may have moved or evicted it.
    pub(super) fn commit(
        &self,
        shard: &mut CounterShard,
        evaluation: &Evaluation,
        context: &DemandContext<'_>,
    ) {
        let &DemandContext {
            fingerprint, now, ..
        } = context;

        let index = shard.find(fingerprint).unwrap_or_else(|| {
            let limit = self.limit_number(context);
            self.charge_slot(shard, limit, fingerprint, now);
            shard.create(limit, evaluation, context)
        });
        if shard.commit(index, evaluation, context) > 0 {
            self.make_room(shard, fingerprint, now);
        }
    }

    /// The fingerprints of the demands' keys, in the same order.
    pub(super) fn fingerprints(&self, demands: &[Demand<'_>]) -> SmallVec<[Fingerprint; 4]> {
        let mut fingerprints = SmallVec::new();
        for demand in demands {
            fingerprints.push(self.fingerprinter.fingerprint(&demand.key));
        }
        fingerprints
    }

    /// Refunds the costs of demands to the counters that exist, in one step.
    pub(super) fn refund(&self, demands: &[Demand<'_>], now: Micros) {
        let fingerprints = self.fingerprints(demands);
        let mut locks = self.lock_all(demands, &fingerprints, false, || now);
        for (demand, fingerprint) in demands.iter().zip(fingerprints) {
            let context = self.peek_context(demand, fingerprint, now);
            let shard = self.locked_shard(&mut locks, fingerprint);
            if let Some(index) = shard.find(fingerprint) {
                shard.refund(index, &context);
                Self::update_marks(shard, &context);
            }
        }
    }

    pub(super) fn change_permit(
        &self,
        demand: &Demand<'_>,
        permit_id: PermitId,
        change: PermitChange,
        now: Micros,
    ) -> bool {
        let fingerprint = self.fingerprinter.fingerprint(&demand.key);
        let context = self.context(demand, fingerprint, Intent::Spend, permit_id, now);
        let mut shard = self.lock(fingerprint);
        let index = shard.find(fingerprint);
        index.is_some_and(|index| shard.change_permit(index, change, &context))
    }

    /// Removes a counter, if there is one, its reservations and its lockout.
    pub(super) fn remove(&self, key: &Key<'_>) {
        let fingerprint = self.fingerprinter.fingerprint(key);
        let mut shard = self.lock(fingerprint);
        shard.remove(fingerprint, self.key_cap());
        shard.remove(fingerprint.for_lockout(), self.key_cap());
        self.update_reservations(&mut shard, |reservations| reservations.forget(fingerprint));
    }

    /// Returns expired reservations of these counters, then locks their shards in ascending order, so
    /// that concurrent requests cannot deadlock. Returns each with its index.
    pub(super) fn lock_all(
        &self,
        demands: &[Demand<'_>],
        fingerprints: &[Fingerprint],
        is_final: bool,
        clock: impl Fn() -> Micros,
    ) -> ShardLocks<'_> {
        for (demand, fingerprint) in demands.iter().zip(fingerprints) {
            self.release_expired(demand, *fingerprint, is_final, &clock);
        }

        let mut indexes: SmallVec<[usize; 4]> = SmallVec::new();
        for fingerprint in fingerprints {
            indexes.push(self.shard_index(*fingerprint));
        }
        indexes.sort_unstable();
        indexes.dedup();

        let mut locks = ShardLocks::new();
        for index in indexes {
            locks.push((index, self.shards[index].lock()));
        }
        locks
    }

    #[inline]
    pub(super) fn locked_shard<'l>(
        &self,
        locks: &'l mut ShardLocks<'_>,
        fingerprint: Fingerprint,
    ) -> &'l mut CounterShard {
        let home = self.shard_index(fingerprint);
        let lock = locks.iter_mut().find(|(index, _)| *index == home);
        &mut lock.expect("the shard of every demand is locked").1
    }

    /// Drops all expired counters.
    pub(super) fn sweep(&self, now: Micros) {
        for shard in &self.shards {
            self.sweep_shard(&mut shard.lock(), now);
        }
    }

    fn sweep_shard(&self, shard: &mut CounterShard, now: Micros) {
        shard.sweep(now, self.key_cap());
        self.sweep_reservations(shard, now);
    }

    /// Sweeps one shard if the next sweep is due.
    #[inline]
    pub(super) fn sweep_if_due(&self, now: Micros) {
        let due = self.sweep_at.load(Relaxed);
        if now.get() >= due {
            self.sweep_next(now, due);
        }
    }

    #[cold]
    fn sweep_next(&self, now: Micros, due: u64) {
        // Of the threads that see the sweep due, the one that sets the next time does it.
        let next = now.after(Micros::new(SWEEP_EVERY.get() / self.shards.len() as u64));
        let claim = self
            .sweep_at
            .compare_exchange(due, next.get(), Relaxed, Relaxed);
        if claim.is_err() {
            return;
        }

        let index = self.shards_swept.fetch_add(1, Relaxed) & (self.shards.len() - 1);
        if let Some(mut shard) = self.shards[index].try_lock() {
            self.sweep_shard(&mut shard, now);
        }
    }
}

/// The locked shards of a request, each with its index.
pub(super) type ShardLocks<'a> = SmallVec<[(usize, ShardGuard<'a>); 4]>;
