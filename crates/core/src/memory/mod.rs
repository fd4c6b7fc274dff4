//! The memory store: no setup, no network, bounded memory.
//!
//! The store is a sharded table of 32-byte counters, looked up by a randomly seeded fingerprint. A
//! check of a known key does not allocate. Expired counters are dropped while the store is in use,
//! and memory is freed after a burst of new keys. At the cap the keys with the most quota left are
//! evicted first, because their loss changes least; keys that have used up their quota are evicted
//! last.

mod builder;
mod evict;
pub(crate) mod fingerprint;
mod key_cap;
mod ledger;
mod shard;
mod side_table;
mod slot;
mod slot_quota;
mod slot_table;
mod snapshot;
mod transaction;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use smallvec::SmallVec;

pub use builder::{KEYS_MAX_DEFAULT, MemoryStoreBuilder};
pub use ledger::{CounterId, Ledger};
pub use snapshot::SnapshotError;

use self::evict::EvictionPolicy;
use self::fingerprint::{Fingerprint, Fingerprinter};
use self::key_cap::KeyCap;
use self::shard::{CounterShard, DemandContext, InitialState, PermitChange};
use self::transaction::{ShardAccess, Transaction};
use crate::algorithm::{Outcome, PermitId};
use crate::clock::ClockSource;
use crate::demand::Demand;
use crate::key::Key;
use crate::lock::{PaddedGuard, PaddedMutex};
use crate::store::Source;
use crate::store::{Intent, SpendReply, Store, StoreFuture};
use crate::time::Micros;

/// Every shard is swept about this often while the store is in use.
const SWEEP_EVERY: Micros = Micros::from_secs(30);
/// How many other shards are searched for a key to evict before an exhausted key is evicted.
const NEIGHBOURS: usize = 2;

/// The memory store. See the [module](self) for how it works and
/// [`Limiter::in_memory`](crate::Limiter::in_memory) for the shortest way to create one. Clones
/// share the same counters.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

/// The shared contents of a store.
struct Inner {
    clock: ClockSource,
    fingerprinter: Fingerprinter,
    /// The number of shards is a power of two.
    shards: Box<[PaddedMutex<CounterShard>]>,
    key_cap: KeyCap,
    /// When the next shard is due to be swept, in microseconds.
    sweep_at: AtomicU64,
    /// The number of shards swept so far, which selects the next one.
    shards_swept: AtomicUsize,
    initial_state: InitialState,
}

impl MemoryStore {
    /// A store with the default cap and the system clock.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Configures the cap and the clock.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }

    /// The number of counters in the store.
    pub fn keys(&self) -> usize {
        self.inner.keys()
    }

    /// The configured cap on the number of counters.
    pub fn keys_max(&self) -> usize {
        self.inner.key_cap.max()
    }

    /// The size of the table in bytes, without the logs and permits outside it.
    pub fn table_bytes(&self) -> usize {
        let slots: usize = self
            .inner
            .shards
            .iter()
            .map(|shard| shard.lock().slots())
            .sum();
        slots * size_of::<slot::Slot>() + size_of_val(&*self.inner.shards)
    }

    /// Drops all expired counters now. While the store is in use, checks do this
    /// shard by shard; an unused store keeps expired counters until it is swept.
    pub fn sweep(&self) {
        let now = self.now();
        for shard in &self.inner.shards {
            shard.lock().sweep(now, &self.inner.key_cap);
        }
    }

    /// [`Store::spend`] without the future.
    pub(crate) fn spend_all(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> SpendReply {
        let reply = self.inner.spend_all(demands, intent, permit_id);
        self.inner.sweep_if_due(reply.at);
        reply
    }

    /// [`Store::release`] without the future.
    pub(crate) fn release_permit(&self, demand: &Demand<'_>, permit_id: PermitId) -> bool {
        self.inner
            .change_permit(demand, permit_id, PermitChange::Release)
    }

    /// [`Store::renew`] without the future.
    pub(crate) fn renew_permit(&self, demand: &Demand<'_>, permit_id: PermitId) -> bool {
        self.inner
            .change_permit(demand, permit_id, PermitChange::Renew)
    }

    fn now(&self) -> Micros {
        self.inner.clock.now()
    }
}

/// Shows the cap only, not the counters.
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys_max", &self.keys_max())
            .finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Inner {
    fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().keys()).sum()
    }

    fn shard_index(&self, fingerprint: Fingerprint) -> usize {
        // The number of shards is a power of two.
        fingerprint.high as usize & (self.shards.len() - 1)
    }

    fn lock(&self, fingerprint: Fingerprint) -> PaddedGuard<'_, CounterShard> {
        self.shards[self.shard_index(fingerprint)].lock()
    }

    /// Decides one demand under one lock. `map` selects the part of the outcome that the caller
    /// needs, so that the compiler drops the computation of the rest.
    #[inline(always)]
    fn spend_one<T>(
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

        let context = DemandContext {
            demand,
            fingerprint,
            permit_id,
            now,
            key_cap: &self.key_cap,
        };
        let mut shard = self.lock(fingerprint);
        let index = shard.find(fingerprint);
        let fast = index
            .filter(|_| intent == Intent::Spend)
            .and_then(|index| shard.spend_at(index, &context, map));
        let result =
            fast.unwrap_or_else(|| map(self.spend_slow(&mut shard, index, &context, intent)));

        shard.update_hot_slot(index, fingerprint);
        result
    }

    /// Decides a demand that the fast path does not cover: a new key, a log, a permit or a peek.
    ///
    /// Reads the clock again, now that the shard is locked. A log must not see time go back:
    /// hits that one thread dropped as expired would make room for a hit with an earlier timestamp.
    #[cold]
    fn spend_slow(
        &self,
        shard: &mut CounterShard,
        index: Option<usize>,
        context: &DemandContext<'_>,
        intent: Intent,
    ) -> Outcome {
        let context = &DemandContext {
            now: self.clock.now(),
            ..*context
        };

        let evaluation = shard.evaluate(index, context, self.initial_state);
        let outcome = evaluation.outcome();
        let fits = outcome.verdict.is_allowed() && context.demand.cost > 0;
        if fits && intent == Intent::Peek {
            return shard.evaluate_uncharged(index, outcome.verdict, context, self.initial_state);
        }

        if fits || evaluation.must_store() {
            transaction::commit(&mut ShardLock { inner: self, shard }, &evaluation, context);
        }
        outcome
    }

    /// Decides several demands. Locks their shards in ascending order, so that concurrent requests
    /// cannot deadlock, and reads the clock once all of them are locked.
    fn spend_all(&self, demands: &[Demand<'_>], intent: Intent, permit_id: PermitId) -> SpendReply {
        let fingerprints = self.fingerprints(demands);
        let mut locks = self.lock_all(&fingerprints);
        let now = self.clock.now();

        let mut outcomes: SmallVec<[(Outcome, Source); 1]> = SmallVec::with_capacity(demands.len());
        let transaction = Transaction {
            demands,
            fingerprints: &fingerprints,
            intent,
            permit_id,
            now,
            key_cap: &self.key_cap,
            initial_state: self.initial_state,
        };
        transaction.spend(&mut locks, |outcome| {
            outcomes.push((outcome, Source::Store));
        });

        SpendReply::from_sources(outcomes, now)
    }

    fn fingerprints(&self, demands: &[Demand<'_>]) -> SmallVec<[Fingerprint; 4]> {
        let mut fingerprints = SmallVec::new();
        for demand in demands {
            fingerprints.push(self.fingerprinter.fingerprint(&demand.key));
        }
        fingerprints
    }

    fn lock_all(&self, fingerprints: &[Fingerprint]) -> ShardLocks<'_> {
        let mut indexes: SmallVec<[usize; 4]> = SmallVec::new();
        for fingerprint in fingerprints {
            indexes.push(self.shard_index(*fingerprint));
        }
        indexes.sort_unstable();
        indexes.dedup();

        let mut guards = SmallVec::new();
        for index in indexes {
            guards.push((index, self.shards[index].lock()));
        }
        ShardLocks {
            inner: self,
            guards,
        }
    }

    /// Evicts keys from this shard, otherwise from a neighbouring shard, otherwise an exhausted key
    /// from this shard. Returns false when there was nothing to evict.
    ///
    /// Other shards are used only if they can be locked without waiting, so this cannot deadlock
    /// with a request that has locked them.
    #[cold]
    fn make_room(&self, shard: &mut CounterShard, needy: Fingerprint, now: Micros) -> bool {
        let (home, key_cap) = (self.shard_index(needy), &self.key_cap);
        let neighbours = (1..=NEIGHBOURS).map(|step| (home + step) & (self.shards.len() - 1));
        let mut others = neighbours.filter_map(|other| self.shards[other].try_lock());

        let spare = EvictionPolicy::SpareExhausted;
        shard.evict(needy, now, key_cap, spare)
            || others.any(|mut other| other.evict(needy, now, key_cap, spare))
            || shard.evict(needy, now, key_cap, EvictionPolicy::AllowExhausted)
    }

    /// Sweeps one shard if the next sweep is due.
    #[inline]
    fn sweep_if_due(&self, now: Micros) {
        if now.get() >= self.sweep_at.load(Relaxed) {
            self.sweep_next(now);
        }
    }

    #[cold]
    fn sweep_next(&self, now: Micros) {
        let due = self.sweep_at.load(Relaxed);
        if now.get() < due {
            return;
        }

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
            shard.sweep(now, &self.key_cap);
        }
    }

    fn change_permit(
        &self,
        demand: &Demand<'_>,
        permit_id: PermitId,
        change: PermitChange,
    ) -> bool {
        let fingerprint = self.fingerprinter.fingerprint(&demand.key);
        let now = self.clock.now();
        let mut shard = self.lock(fingerprint);
        let Some(index) = shard.find(fingerprint) else {
            return false;
        };

        let context = DemandContext {
            demand,
            fingerprint,
            permit_id,
            now,
            key_cap: &self.key_cap,
        };
        shard.change_permit(index, change, &context)
    }
}

/// The locked shards of a request, each with its index.
struct ShardLocks<'a> {
    inner: &'a Inner,
    guards: SmallVec<[(usize, PaddedGuard<'a, CounterShard>); 4]>,
}

impl ShardAccess for ShardLocks<'_> {
    #[inline]
    fn shard_for(&mut self, fingerprint: Fingerprint) -> &mut CounterShard {
        let home = self.inner.shard_index(fingerprint);
        let guard = self.guards.iter_mut().find(|(index, _)| *index == home);
        &mut guard.expect("the shard of every demand is locked").1
    }

    fn make_room(&mut self, needy: Fingerprint, now: Micros) {
        let inner = self.inner;
        inner.make_room(self.shard_for(needy), needy, now);
    }
}

/// The locked shard of a request with a single demand.
struct ShardLock<'a> {
    inner: &'a Inner,
    shard: &'a mut CounterShard,
}

impl ShardAccess for ShardLock<'_> {
    #[inline]
    fn shard_for(&mut self, _: Fingerprint) -> &mut CounterShard {
        self.shard
    }

    fn make_room(&mut self, needy: Fingerprint, now: Micros) {
        self.inner.make_room(self.shard, needy, now);
    }
}

impl Store for MemoryStore {
    fn spend<'a>(
        &'a self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        StoreFuture::ready(Ok(self.spend_all(demands, intent, permit_id)))
    }

    fn try_spend(
        &self,
        demand: &Demand<'_>,
        intent: Intent,
        permit_id: PermitId,
    ) -> Option<(Outcome, Source)> {
        self.inner.spend_one(demand, intent, permit_id, |outcome| {
            Some((outcome, Source::Store))
        })
    }

    fn try_spend_all(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> Option<SpendReply> {
        Some(self.spend_all(demands, intent, permit_id))
    }

    fn try_is_allowed(&self, demand: &Demand<'_>) -> Option<bool> {
        let is_allowed = |outcome: Outcome| Some(outcome.verdict.is_allowed());
        self.inner
            .spend_one(demand, Intent::Spend, PermitId::NONE, is_allowed)
    }

    fn refund<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        let now = self.inner.clock.now();
        let fingerprints = self.inner.fingerprints(demands);
        let mut locks = self.inner.lock_all(&fingerprints);

        for (demand, fingerprint) in demands.iter().zip(&fingerprints) {
            let shard = locks.shard_for(*fingerprint);
            if let Some(index) = shard.find(*fingerprint) {
                shard.refund(index, demand, now, &self.inner.key_cap);
            }
        }
        StoreFuture::ready(Ok(()))
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        let fingerprint = self.inner.fingerprinter.fingerprint(key);
        let mut shard = self.inner.lock(fingerprint);
        shard.remove(fingerprint, &self.inner.key_cap);
        StoreFuture::ready(Ok(()))
    }

    fn release<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        StoreFuture::ready(Ok(self.release_permit(demand, permit_id)))
    }

    fn renew<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        StoreFuture::ready(Ok(self.renew_permit(demand, permit_id)))
    }
}

#[cfg(test)]
mod tests;
