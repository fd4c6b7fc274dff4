//! The store: counters, a clock, and the [`Store`] interface.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::counters::Counters;
use super::limit_usage::Evictions;
use super::shard::PermitChange;
use crate::algorithm::{Outcome, PermitId};
use crate::clock::ClockSource;
use crate::demand::Demand;
use crate::key::Key;
use crate::name::LimitName;
use crate::store::{
    Ending, Intent, SettleReply, Settlement, Source, SpendReply, Store, StoreFuture,
};
use crate::time::Micros;

/// The memory store. See the [module](super) for how it works and
/// [`Limiter::in_memory`](crate::Limiter::in_memory) for the shortest way to create one. Clones
/// share the same counters.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

/// The shared contents of a store.
struct Inner {
    clock: ClockSource,
    counters: Counters,
}

impl MemoryStore {
    pub(super) fn from_counters(counters: Counters, clock: ClockSource) -> Self {
        Self {
            inner: Arc::new(Inner { clock, counters }),
        }
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    pub(super) fn now(&self) -> Micros {
        self.inner.clock.now()
    }

    /// The number of counters in the store.
    pub fn keys(&self) -> usize {
        self.counters().keys()
    }

    /// The configured cap on the number of counters.
    pub fn keys_max(&self) -> usize {
        self.counters().key_cap().max()
    }

    /// The size of the table in bytes, without the logs and permits outside it.
    pub fn table_bytes(&self) -> usize {
        self.counters().table_bytes()
    }

    /// How many counters each limit has lost because the store had reached its cap. The
    /// limits beyond the first 255 are counted together, without a name.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter, MemoryStore};
    ///
    /// let store = MemoryStore::builder().keys_max(100).build();
    /// let login = Limit::fixed_window("login", 5, Duration::from_secs(3_600));
    /// let limiter = Limiter::new(store.clone(), [login])?;
    /// for address in 0..150_u64 {
    ///     limiter.check("login", address).cost(5).try_now()?;
    /// }
    ///
    /// let (limit, evictions) = &store.evictions()[0];
    /// assert_eq!(limit.as_deref(), Some("login"));
    /// assert!(evictions.limited >= 50 && evictions.unlimited == 0);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn evictions(&self) -> Vec<(Option<LimitName>, Evictions)> {
        let mut limits: BTreeMap<Option<LimitName>, Evictions> = BTreeMap::new();
        for (limit, evictions) in self.counters().key_cap().evictions() {
            // A limit whose window has changed has two entries.
            *limits.entry(limit).or_default() += evictions;
        }
        limits.into_iter().collect()
    }

    /// Drops all expired counters now. While the store is in use, checks do this
    /// shard by shard; an unused store keeps expired counters until it is swept.
    pub fn sweep(&self) {
        self.counters().sweep(self.now());
    }

    /// [`Store::spend`] without the future.
    pub(crate) fn spend_all(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> SpendReply {
        let counters = self.counters();
        let fingerprints = counters.fingerprints(demands);
        if intent == Intent::Inspect {
            return counters.inspect_all(demands, &fingerprints, || self.now());
        }

        let mut outcomes: SmallVec<[(Outcome, Source); 1]> = SmallVec::with_capacity(demands.len());
        let (clock, report) = (
            || self.now(),
            |outcome| outcomes.push((outcome, Source::Store)),
        );
        let at = counters.spend_all(demands, &fingerprints, intent, permit_id, clock, report);
        SpendReply::from_sources(outcomes, at)
    }

    /// Decides one demand; see [`Counters::spend_one`] for `map`.
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
        let Inner { clock, counters } = &*self.inner;
        let fingerprint = counters.fingerprinter.fingerprint(&demand.key);
        counters.spend_one(demand, fingerprint, intent, permit_id, || clock.now(), map)
    }

    /// Takes back what these demands of a reservation have charged, as if it had never been made.
    pub(crate) fn cancel(&self, demands: &[Demand<'_>], reservation: PermitId) {
        let now = self.now();
        for demand in demands {
            self.counters().cancel(demand, reservation, now);
        }
    }

    /// [`Store::release`] without the future.
    pub(crate) fn release_permit(&self, demand: &Demand<'_>, permit_id: PermitId) -> bool {
        let (change, now) = (PermitChange::Release, self.now());
        self.counters()
            .change_permit(demand, permit_id, change, now)
    }

    /// [`Store::renew`] without the future.
    pub(crate) fn renew_permit(&self, demand: &Demand<'_>, permit_id: PermitId) -> bool {
        let (change, now) = (PermitChange::Renew, self.now());
        self.counters()
            .change_permit(demand, permit_id, change, now)
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
        self.spend_one(demand, intent, permit_id, |outcome| {
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
        self.spend_one(demand, Intent::Spend, PermitId::NONE, is_allowed)
    }

    fn refund<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        self.counters().refund(demands, self.now());
        StoreFuture::ready(Ok(()))
    }

    fn settle<'a>(
        &'a self,
        settlements: &[Settlement<'_>],
        ending: Ending,
    ) -> StoreFuture<'a, Vec<SettleReply>> {
        let replies = self.counters().settle_all(settlements, ending, self.now());
        StoreFuture::ready(Ok(replies))
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        self.counters().remove(key);
        StoreFuture::ready(Ok(()))
    }

    fn can_fail(&self) -> bool {
        false
    }

    fn release<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        StoreFuture::ready(Ok(self.release_permit(demand, permit_id)))
    }

    fn renew<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        StoreFuture::ready(Ok(self.renew_permit(demand, permit_id)))
    }
}
