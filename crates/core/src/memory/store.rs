//! The store: counters, and the [`Store`] interface.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::context::DemandContext;
use super::counters::Counters;
use super::limit_usage::Evictions;
use super::shard::PermitChange;
use super::small::{Evaluation, read_bucket, write_bucket};
use crate::algorithm::{BucketState, Gcra, Outcome, PermitId};
use crate::demand::Demand;
use crate::key::Key;
use crate::name::LimitName;
use crate::store::{
    Ending, Intent, SettleReply, Settlement, Source, SpendReply, Store, StoreError, StoreFuture,
};
use crate::time::Micros;

/// The memory store. See the [module](super) for how it works and
/// [`Limiter::in_memory`](crate::Limiter::in_memory) for the shortest way to create one. Clones
/// share the same counters.
#[derive(Clone)]
pub struct MemoryStore {
    counters: Arc<Counters>,
}

impl MemoryStore {
    pub(super) fn from_counters(counters: Counters) -> Self {
        Self {
            counters: Arc::new(counters),
        }
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The number of counters in the store.
    pub fn keys(&self) -> usize {
        self.counters.keys()
    }

    /// The configured cap on the number of counters.
    pub fn keys_max(&self) -> usize {
        self.counters.key_cap.max()
    }

    /// The size of the table in bytes, without the logs and permits outside it.
    pub fn table_bytes(&self) -> usize {
        self.counters.table_bytes()
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
        for (limit, evictions) in self.counters.key_cap.evictions() {
            // A limit whose window has changed has two entries.
            *limits.entry(limit).or_default() += evictions;
        }
        limits.into_iter().collect()
    }

    /// Drops all expired counters now. While the store is in use, checks do this
    /// shard by shard; an unused store keeps expired counters until it is swept.
    pub fn sweep(&self) {
        self.counters.sweep(self.counters.clock.now());
    }

    /// [`Store::spend`] without the future.
    pub(crate) fn spend_all(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> Result<SpendReply, StoreError> {
        if intent == Intent::Inspect {
            return Ok(self.counters.inspect_all(demands));
        }
        self.counters.spend_all(demands, intent, permit_id)
    }

    /// Takes back what these demands of a reservation have charged, as if it had never been made.
    pub(crate) fn cancel(&self, demands: &[Demand<'_>], reservation: PermitId) {
        for demand in demands {
            self.counters.cancel(demand, reservation);
        }
    }

    /// [`Store::release`] without the future.
    pub(crate) fn release_permit(&self, demand: &Demand<'_>, permit_id: PermitId) -> bool {
        let change = PermitChange::Release;
        self.counters.change_permit(demand, permit_id, change)
    }

    /// [`Store::renew`] without the future.
    pub(crate) fn renew_permit(&self, demand: &Demand<'_>, permit_id: PermitId) -> bool {
        let change = PermitChange::Renew;
        self.counters.change_permit(demand, permit_id, change)
    }

    /// Charges a demand on a bucket that follows the counter of another store, whether it fits or
    /// not. The bucket then owes what did not fit, up to what it holds. Demands on logs, windows
    /// and permits are not charged.
    pub(crate) fn charge(&self, demand: &Demand<'_>) {
        self.update_bucket(demand, |gcra, state, now| {
            gcra.charge(state, demand.cost, gcra.capacity, now)
        });
    }

    /// Takes units of a demand's bucket until at most `remaining` are left.
    pub(crate) fn drain(&self, demand: &Demand<'_>, remaining: u64) {
        self.update_bucket(demand, |gcra, state, now| gcra.drain(state, remaining, now));
    }

    /// Replaces the state of a demand's bucket by what `update` makes of it.
    fn update_bucket(
        &self,
        demand: &Demand<'_>,
        update: impl FnOnce(&Gcra, BucketState, Micros) -> BucketState,
    ) {
        let Some(gcra) = demand.quota().bucket() else {
            return;
        };
        let counters = &*self.counters;
        let now = counters.clock.now();
        counters.sweep_if_due(now);

        let fingerprint = counters.fingerprinter.fingerprint(&demand.key);
        let context = DemandContext::peek(demand, fingerprint, now).with_cost(0);
        let mut shard = counters.lock(fingerprint);
        let evaluation = shard.evaluate(&context);
        let next = evaluation.next.map(|stored| {
            let (state, _) = read_bucket(gcra, &stored, now);
            write_bucket(gcra, update(gcra, state, now))
        });
        counters.commit(&mut shard, &Evaluation { next, ..evaluation }, &context);
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
        StoreFuture::ready(self.spend_all(demands, intent, permit_id))
    }

    fn try_spend(
        &self,
        demand: &Demand<'_>,
        intent: Intent,
        permit_id: PermitId,
    ) -> Option<(Outcome, Source)> {
        self.counters
            .spend_one(demand, intent, permit_id, |outcome| {
                Some((outcome, Source::Store))
            })
    }

    fn try_spend_all(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> Option<SpendReply> {
        self.spend_all(demands, intent, permit_id).ok()
    }

    fn try_is_allowed(&self, demand: &Demand<'_>) -> Option<bool> {
        let is_allowed = |outcome: Outcome| Some(outcome.verdict.is_allowed());
        self.counters
            .spend_one(demand, Intent::Spend, PermitId::NONE, is_allowed)
    }

    fn refund<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        self.counters.refund(demands);
        StoreFuture::ready(Ok(()))
    }

    fn settle<'a>(
        &'a self,
        settlements: &[Settlement<'_>],
        ending: Ending,
    ) -> StoreFuture<'a, Vec<SettleReply>> {
        let replies = self.counters.settle_all(settlements, ending);
        StoreFuture::ready(Ok(replies))
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        self.counters.remove(key);
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
