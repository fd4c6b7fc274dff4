//! The counters of a store: which shard has a counter, and how the demands of a request are decided
//! together.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use smallvec::SmallVec;

use super::context::DemandContext;
use super::key_cap::{CapCharge, KeyCap};
use super::limit_usage::LimitNumber;
use super::shard::{LockedShard, PermitChange, Shard};
use super::small::{Evaluation, UnitReturn};
use crate::algorithm::{Outcome, PermitId, Verdict};
use crate::clock::ClockSource;
use crate::demand::Demand;
use crate::key::{Fingerprint, Fingerprinter, Key};
use crate::limit::{ReservationExpiry, Rule};
use crate::store::{Intent, Source, SpendReply, StoreError};
use crate::time::Micros;

/// The number of keys for which one more shard is worthwhile.
const KEYS_PER_SHARD_MIN: usize = 1_024;
/// The most shards of a store.
const SHARDS_MAX: usize = 256;
/// Every shard is swept about this often while the store is in use.
const SWEEP_EVERY: Micros = Micros::from_secs(30);
/// When to retry a permit or a reservation for which the store has no room. They end at any time.
pub(super) const RETRY_WITHOUT_ROOM: Micros = Micros::from_secs(1);

/// All counters of a store, and its clock.
pub(super) struct Counters {
    pub(super) clock: ClockSource,
    pub(super) fingerprinter: Fingerprinter,
    /// The number of shards is a power of two.
    pub(super) shards: Box<[Shard]>,
    pub(super) key_cap: KeyCap,
    /// How many reservations are open or remembered.
    pub(super) open_reservations: AtomicUsize,
    /// When the next shard is due to be swept, in microseconds.
    sweep_at: AtomicU64,
    /// The number of shards swept so far, which selects the next one.
    shards_swept: AtomicUsize,
}

impl Counters {
    /// No counters, of which there may be `keys_max`.
    pub(super) fn new(keys_max: usize, fingerprinter: Fingerprinter, clock: ClockSource) -> Self {
        let shards = (keys_max / KEYS_PER_SHARD_MIN)
            .clamp(1, SHARDS_MAX)
            .next_power_of_two();

        Self {
            clock,
            fingerprinter,
            shards: (0..shards).map(|_| Shard::new(keys_max)).collect(),
            key_cap: KeyCap::new(keys_max),
            open_reservations: AtomicUsize::new(0),
            sweep_at: AtomicU64::new(0),
            shards_swept: AtomicUsize::new(0),
        }
    }

    pub(super) fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().keys()).sum()
    }

    /// The size of the table in bytes, without logs and permits.
    pub(super) fn table_bytes(&self) -> usize {
        let tables = self.shards.iter().map(|shard| shard.table.bytes());
        tables.sum::<usize>() + size_of_val(&*self.shards)
    }

    #[inline(always)]
    pub(super) fn shard_index(&self, fingerprint: Fingerprint) -> usize {
        // The number of shards is a power of two.
        fingerprint.high as usize & (self.shards.len() - 1)
    }

    pub(super) fn lock(&self, fingerprint: Fingerprint) -> LockedShard<'_> {
        self.shards[self.shard_index(fingerprint)].lock()
    }

    /// Decides several demands: evaluates all of them, then commits all or none. Fails if one of them
    /// cannot be reserved because too many reservations are open; then nothing is charged.
    pub(super) fn spend_all(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> Result<SpendReply, StoreError> {
        let fingerprints = self.fingerprints(demands);
        let mut locks = self.lock_all(demands, &fingerprints, intent.is_reserve());
        let now = self.clock.now();
        let rows = demands.iter().zip(&fingerprints);
        let contexts = rows.map(|(demand, fingerprint)| {
            DemandContext::new(demand, *fingerprint, intent, permit_id, now)
        });

        let mut evaluations: SmallVec<[Evaluation; 4]> = SmallVec::new();
        let mut is_charged = intent.is_conditional();
        for context in contexts.clone() {
            let shard = self.locked_shard(&mut locks, context.fingerprint);
            if !context.limit.is_shadow() && !self.has_room_for_reservation(shard, &context) {
                let limit = Some(*context.limit.name());
                return Err(StoreError::Bound { limit });
            }
            let evaluation = self.evaluate(shard, &context);
            is_charged &= context.limit.is_shadow() || evaluation.outcome.verdict.is_allowed();
            evaluations.push(evaluation);
        }

        let outcomes = contexts.zip(&evaluations).map(|(context, evaluation)| {
            let shard = self.locked_shard(&mut locks, context.fingerprint);
            self.finish(shard, evaluation, &context, is_charged)
        });
        let reply = SpendReply::new(outcomes, Source::Store, now);

        drop(locks);
        self.sweep_if_due(now);
        Ok(reply)
    }

    /// Evaluates a demand, see [`LockedShard::evaluate`], and counts its denial if the limit has a
    /// lockout. Permits and reservations are never evicted, so those for which there is no room are
    /// denied.
    pub(super) fn evaluate(
        &self,
        shard: &mut LockedShard<'_>,
        context: &DemandContext<'_>,
    ) -> Evaluation {
        let mut evaluation = shard.evaluate(context);
        if let Some(lockout) = context.limit.lockout() {
            self.apply_lockout(shard, &mut evaluation, lockout, context);
        }

        let is_permit = context.is_permit() && context.cost > 0;
        if !evaluation.outcome.verdict.is_allowed()
            || (!is_permit || self.has_room_for_permit(shard, context))
                && self.has_room_for_reservation(shard, context)
        {
            return evaluation;
        }

        let mut denied = shard.evaluate(&context.with_cost(0));
        denied.outcome.verdict = Verdict::Deny {
            retry_after: RETRY_WITHOUT_ROOM,
        };
        denied
    }

    pub(super) fn has_room_for_permit(
        &self,
        shard: &mut LockedShard<'_>,
        context: &DemandContext<'_>,
    ) -> bool {
        let key = usize::from(!shard.contains(context));
        let limit = self.limit_number(context.limit);
        self.key_cap.has_room_for_permits(limit, key + 1)
    }

    pub(super) fn limit_number(&self, limit: &Rule) -> LimitNumber {
        if !limit.has_share() {
            return LimitNumber::OTHERS;
        }
        let prefix = limit.prefix();
        self.key_cap.limit_number(prefix.digest(), *prefix.name())
    }

    /// Commits or discards the evaluation of one demand. `is_charged` is true when the request as
    /// a whole is allowed and charged. A demand that is only counted is always charged.
    pub(super) fn finish(
        &self,
        shard: &mut LockedShard<'_>,
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
            let evaluation = shard.evaluate(&context);
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

    /// Stores the result of an evaluation.
    pub(super) fn commit(
        &self,
        shard: &mut LockedShard<'_>,
        evaluation: &Evaluation,
        context: &DemandContext<'_>,
    ) {
        let limit = self.limit_number(context.limit);
        if !shard.contains(context) {
            self.charge_key(shard, limit, context.fingerprint, context.now);
        }
        if shard.commit(evaluation, limit, context, &self.key_cap) > 0 {
            self.make_room(shard, context.fingerprint, context.now);
        }
    }

    /// Charges a new key to the cap, and makes room for it if there is none.
    pub(super) fn charge_key(
        &self,
        shard: &mut LockedShard<'_>,
        limit: LimitNumber,
        needy: Fingerprint,
        now: Micros,
    ) {
        if self.key_cap.charge(limit, CapCharge::KEY) > 0 {
            self.make_room(shard, needy, now);
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
    pub(super) fn refund(&self, demands: &[Demand<'_>]) {
        let (fingerprints, now) = (self.fingerprints(demands), self.clock.now());
        let mut locks = self.lock_all(demands, &fingerprints, false);
        for (demand, fingerprint) in demands.iter().zip(fingerprints) {
            let context = DemandContext::peek(demand, fingerprint, now);
            let shard = self.locked_shard(&mut locks, fingerprint);
            let returned = UnitReturn::Refund(demand.cost);
            shard.return_units(returned, &context, &self.key_cap);
            Self::update_marks(shard, &context);
        }
    }

    pub(super) fn change_permit(
        &self,
        demand: &Demand<'_>,
        permit_id: PermitId,
        change: PermitChange,
    ) -> bool {
        let fingerprint = self.fingerprinter.fingerprint(&demand.key);
        let now = self.clock.now();
        let context = DemandContext::new(demand, fingerprint, Intent::Spend, permit_id, now);
        let mut shard = self.lock(fingerprint);
        shard.change_permit(change, &context, &self.key_cap)
    }

    /// Removes a counter, if there is one, its reservations and its lockout.
    pub(super) fn remove(&self, key: &Key<'_>) {
        let fingerprint = self.fingerprinter.fingerprint(key);
        let mut shard = self.lock(fingerprint);
        shard.remove(fingerprint, &self.key_cap);
        shard.remove(fingerprint.for_lockout(), &self.key_cap);
        self.update_reservations(&mut shard, |reservations| reservations.forget(fingerprint));
    }

    /// Returns expired reservations of these counters, then locks their shards in ascending order,
    /// so that concurrent requests cannot deadlock. Returns each with its index.
    pub(super) fn lock_all(
        &self,
        demands: &[Demand<'_>],
        fingerprints: &[Fingerprint],
        is_final: bool,
    ) -> ShardLocks<'_> {
        for (demand, fingerprint) in demands.iter().zip(fingerprints) {
            self.release_expired(demand, *fingerprint, is_final);
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

    pub(super) fn locked_shard<'l, 'c>(
        &self,
        locks: &'l mut ShardLocks<'c>,
        fingerprint: Fingerprint,
    ) -> &'l mut LockedShard<'c> {
        let home = self.shard_index(fingerprint);
        let lock = locks.iter_mut().find(|(index, _)| *index == home);
        &mut lock.expect("the shard of every demand is locked").1
    }

    /// True when expired reservations of a limit are released by the next request for their key.
    #[inline(always)]
    pub(super) fn may_release_expired(&self, limit: &Rule) -> bool {
        limit.on_reservation_expiry() == ReservationExpiry::Release
            && self.open_reservations.load(Relaxed) > 0
    }

    /// Drops all expired counters.
    pub(super) fn sweep(&self, now: Micros) {
        for shard in &self.shards {
            self.sweep_shard(&mut shard.lock(), now);
        }
    }

    fn sweep_shard(&self, shard: &mut LockedShard<'_>, now: Micros) {
        shard.sweep(now, &self.key_cap);
        self.sweep_reservations(shard, now);
    }

    /// Sweeps one shard if the next sweep is due.
    #[inline(always)]
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
pub(super) type ShardLocks<'a> = SmallVec<[(usize, LockedShard<'a>); 4]>;
