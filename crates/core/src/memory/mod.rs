//! The embedded store: no set-up, no network, bounded memory.
//!
//! A sharded table of 32-byte counters found by a randomly keyed fingerprint. A hit allocates
//! nothing. What has expired is dropped in passing, and memory goes back after a burst of new keys.
//! At the cap the keys nearest to a full budget are forgotten first, because forgetting them
//! changes least; keys that have used theirs up go last.

mod budget;
mod builder;
mod evict;
pub(crate) mod fingerprint;
mod in_slot;
mod ledger;
mod shard;
mod sides;
mod slot;
mod snapshot;
mod table;
mod together;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use smallvec::SmallVec;

pub use builder::{KEYS_MAX_DEFAULT, MemoryStoreBuilder};
pub use ledger::{Ledger, Place};
pub use snapshot::SnapshotError;

use self::budget::Budget;
use self::evict::Offenders;
use self::fingerprint::{Fingerprint, Fingerprinter};
use self::shard::{LeaseChange, Newcomers, Shard, Spend};
use self::together::{Shards, Together};
use crate::algorithm::{Outcome, PermitId};
use crate::clock::Time;
use crate::decision::Source;
use crate::key::Key;
use crate::lock::{self, Padded};
use crate::store::{Demand, Intent, SpendReply, Store, StoreFuture};
use crate::time::Micros;

/// Every shard is swept about this often, as long as anything is asked of the store at all.
const SWEEP_EVERY: Micros = Micros::from_secs(30);
/// How many other shards are searched for something to forget before an offender is.
const NEIGHBOURS: usize = 2;

/// The embedded store. See the [module](self) for how it works and
/// [`Limiter::in_memory`](crate::Limiter::in_memory) for the shortest way to one. Clones share the
/// same counters.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Time,
    prints: Fingerprinter,
    shards: Box<[Padded<Shard>]>,
    budget: Budget,
    sweep_at: AtomicU64,
    sweep_next: AtomicUsize,
    newcomers: Newcomers,
}

type Guard<'a> = lock::Guard<'a, Shard>;

impl MemoryStore {
    /// A store with the default cap and real time.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Choose the cap or the clock.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }

    /// How many counters are kept.
    pub fn keys(&self) -> usize {
        self.inner.keys()
    }

    /// The cap that was asked for.
    pub fn keys_max(&self) -> usize {
        self.inner.budget.max()
    }

    /// Bytes taken by the table, without the logs and leases beside it.
    pub fn table_bytes(&self) -> usize {
        let slots: usize = self
            .inner
            .shards
            .iter()
            .map(|shard| shard.lock().slots())
            .sum();
        slots * size_of::<slot::Slot>() + size_of_val(&*self.inner.shards)
    }

    /// Drops everything that has expired, now. Use makes this happen by itself; a store nobody asks
    /// keeps what it has.
    pub fn sweep(&self) {
        let now = self.now();
        for shard in &self.inner.shards {
            shard.lock().sweep(now, &self.inner.budget);
        }
    }

    /// What [`Store::spend`] answers, without the wrapping.
    pub(crate) fn spend_together(
        &self,
        checks: &[Demand<'_>],
        intent: Intent,
        lease: PermitId,
    ) -> SpendReply {
        let spent = self.inner.spend_all(checks, intent, lease);
        self.inner.sweep_in_passing(spent.at);
        spent
    }

    /// What [`Store::release`] answers, without the wrapping.
    pub(crate) fn release_place(&self, check: &Demand<'_>, lease: PermitId) -> bool {
        self.inner.change_lease(check, lease, LeaseChange::Release)
    }

    /// What [`Store::renew`] answers, without the wrapping.
    pub(crate) fn renew_place(&self, check: &Demand<'_>, lease: PermitId) -> bool {
        self.inner.change_lease(check, lease, LeaseChange::Renew)
    }

    fn now(&self) -> Micros {
        self.inner.clock.now()
    }
}

/// Its size, and nothing of what it knows.
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

    fn shard_of(&self, print: Fingerprint) -> usize {
        // The number of shards is a power of two.
        print.high as usize & (self.shards.len() - 1)
    }

    fn lock(&self, print: Fingerprint) -> Guard<'_> {
        self.shards[self.shard_of(print)].lock()
    }

    /// One check, one lock. What `part` leaves of the outcome is all that is worked out.
    #[inline(always)]
    fn try_spend<T>(
        &self,
        check: &Demand<'_>,
        intent: Intent,
        lease: PermitId,
        part: impl Copy + FnOnce(Outcome) -> T,
    ) -> T {
        // In this order: reading the counter holds up what comes after it, and the key may be far
        // away in memory.
        let print = self.prints.of(&check.key);
        let now = self.clock.now();
        self.sweep_in_passing(now);
        let spend = Spend {
            check,
            print,
            lease,
            now,
            budget: &self.budget,
        };
        let mut shard = self.lock(print);
        let at = shard.find(print);
        let usual = at
            .filter(|_| intent == Intent::Spend)
            .and_then(|at| shard.spend_at(at, &spend, part));
        let told =
            usual.unwrap_or_else(|| part(self.spend_unusual(&mut shard, at, &spend, intent)));
        shard.offer_seat(at, print);
        told
    }

    /// A new key, a log, a place in flight, or only a look. A log must not see time go back, or
    /// what one thread found expired would make room for a hit of a moment before; so the time is
    /// asked for again, now that it is locked.
    #[cold]
    fn spend_unusual(
        &self,
        shard: &mut Shard,
        at: Option<usize>,
        spend: &Spend<'_>,
        intent: Intent,
    ) -> Outcome {
        let spend = &Spend {
            now: self.clock.now(),
            ..*spend
        };
        let looked = shard.look(at, spend, self.newcomers);
        let outcome = looked.outcome();
        let fits = outcome.verdict.is_allowed() && spend.check.cost > 0;
        if fits && intent == Intent::Peek {
            return shard.uncharged(at, outcome.verdict, spend, self.newcomers);
        }
        if fits || looked.must_keep() {
            together::commit(&mut LockedOne { inner: self, shard }, &looked, spend);
        }
        outcome
    }

    /// Locks the shards of all checks in order, so that requests cannot wait for each other in a
    /// circle. The time is asked for once they are locked.
    fn spend_all(&self, checks: &[Demand<'_>], intent: Intent, lease: PermitId) -> SpendReply {
        let prints = self.prints_of(checks);
        let mut locked = self.lock_all(&prints);
        let (now, budget, newcomers) = (self.clock.now(), &self.budget, self.newcomers);
        let mut outcomes = SmallVec::with_capacity(checks.len());
        let together = Together {
            checks,
            prints: &prints,
            intent,
            lease,
            now,
            budget,
            newcomers,
        };
        together.spend(&mut locked, |outcome| outcomes.push(outcome));
        SpendReply::by_store(outcomes, now)
    }

    fn prints_of(&self, checks: &[Demand<'_>]) -> SmallVec<[Fingerprint; 4]> {
        let mut prints = SmallVec::new();
        for check in checks {
            prints.push(self.prints.of(&check.key));
        }
        prints
    }

    fn lock_all(&self, prints: &[Fingerprint]) -> Locked<'_> {
        let mut homes: SmallVec<[usize; 4]> = SmallVec::new();
        for print in prints {
            homes.push(self.shard_of(*print));
        }
        homes.sort_unstable();
        homes.dedup();
        let mut held = SmallVec::new();
        for home in homes {
            held.push((home, self.shards[home].lock()));
        }
        Locked { inner: self, held }
    }

    /// Forgets something: here, else next door, else an offender here. Other shards are only tried,
    /// never waited for, so this cannot deadlock with a request that holds them. False when there
    /// was nothing to forget.
    #[cold]
    fn make_room(&self, shard: &mut Shard, needy: Fingerprint, now: Micros) -> bool {
        let (home, budget) = (self.shard_of(needy), &self.budget);
        let next_door = (1..=NEIGHBOURS).map(|step| (home + step) & (self.shards.len() - 1));
        let mut others = next_door.filter_map(|other| self.shards[other].try_lock());
        shard.evict(needy, now, budget, Offenders::Spare)
            || others.any(|mut other| other.evict(needy, now, budget, Offenders::Spare))
            || shard.evict(needy, now, budget, Offenders::LastResort)
    }

    /// Sweeps one shard when its turn has come.
    #[inline]
    fn sweep_in_passing(&self, now: Micros) {
        if now.get() >= self.sweep_at.load(Relaxed) {
            self.sweep_next(now);
        }
    }

    #[cold]
    fn sweep_next(&self, now: Micros) {
        let due = self.sweep_at.load(Relaxed);
        let next = now.after(Micros::new(SWEEP_EVERY.get() / self.shards.len() as u64));
        if now.get() < due
            || self
                .sweep_at
                .compare_exchange(due, next.get(), Relaxed, Relaxed)
                .is_err()
        {
            return;
        }
        let turn = self.sweep_next.fetch_add(1, Relaxed) & (self.shards.len() - 1);
        if let Some(mut shard) = self.shards[turn].try_lock() {
            shard.sweep(now, &self.budget);
        }
    }

    fn change_lease(&self, check: &Demand<'_>, lease: PermitId, change: LeaseChange) -> bool {
        let print = self.prints.of(&check.key);
        let now = self.clock.now();
        let mut shard = self.lock(print);
        let Some(index) = shard.find(print) else {
            return false;
        };
        shard.change_lease(
            index,
            change,
            &Spend {
                check,
                print,
                lease,
                now,
                budget: &self.budget,
            },
        )
    }
}

/// The shards that a request has locked, by their places.
struct Locked<'a> {
    inner: &'a Inner,
    held: SmallVec<[(usize, Guard<'a>); 4]>,
}

impl Shards for Locked<'_> {
    #[inline]
    fn of(&mut self, print: Fingerprint) -> &mut Shard {
        let home = self.inner.shard_of(print);
        let held = self.held.iter_mut().find(|(place, _)| *place == home);
        &mut held.expect("every check's shard is locked").1
    }

    fn make_room(&mut self, needy: Fingerprint, now: Micros) {
        let inner = self.inner;
        inner.make_room(self.of(needy), needy, now);
    }
}

/// The only shard of a request.
struct LockedOne<'a> {
    inner: &'a Inner,
    shard: &'a mut Shard,
}

impl Shards for LockedOne<'_> {
    #[inline]
    fn of(&mut self, _: Fingerprint) -> &mut Shard {
        self.shard
    }

    fn make_room(&mut self, needy: Fingerprint, now: Micros) {
        self.inner.make_room(self.shard, needy, now);
    }
}

impl Store for MemoryStore {
    fn spend<'a>(
        &'a self,
        checks: &[Demand<'_>],
        intent: Intent,
        lease: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        StoreFuture::ready(Ok(self.spend_together(checks, intent, lease)))
    }

    fn try_spend(
        &self,
        check: &Demand<'_>,
        intent: Intent,
        lease: PermitId,
    ) -> Option<(Outcome, Source)> {
        self.inner.try_spend(check, intent, lease, |outcome| {
            Some((outcome, Source::Store))
        })
    }

    fn try_is_allowed(&self, check: &Demand<'_>) -> Option<bool> {
        let passes = |outcome: Outcome| Some(outcome.verdict.is_allowed());
        self.inner
            .try_spend(check, Intent::Spend, PermitId::NONE, passes)
    }

    fn refund<'a>(&'a self, checks: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        let now = self.inner.clock.now();
        let prints = self.inner.prints_of(checks);
        let mut locked = self.inner.lock_all(&prints);
        for (check, print) in checks.iter().zip(&prints) {
            let shard = locked.of(*print);
            if let Some(index) = shard.find(*print) {
                shard.refund(index, check, now, &self.inner.budget);
            }
        }
        StoreFuture::ready(Ok(()))
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        let print = self.inner.prints.of(key);
        let mut shard = self.inner.lock(print);
        shard.remove(print, &self.inner.budget);
        StoreFuture::ready(Ok(()))
    }

    fn release<'a>(&'a self, check: &Demand<'_>, lease: PermitId) -> StoreFuture<'a, bool> {
        StoreFuture::ready(Ok(self.release_place(check, lease)))
    }

    fn renew<'a>(&'a self, check: &Demand<'_>, lease: PermitId) -> StoreFuture<'a, bool> {
        StoreFuture::ready(Ok(self.renew_place(check, lease)))
    }
}

#[cfg(test)]
mod tests;
