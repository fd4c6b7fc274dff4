//! The fallback `local`: counts in this process during an outage of the store, against this
//! process's share of each limit.

use std::sync::Arc;

use crate::algorithm::PermitId;
use crate::clock::Clock;
use crate::demand::Demand;
use crate::memory::MemoryStore;
use crate::store::Store;
use crate::time::Micros;

/// The maximum number of keys counted during an outage, at most 6 MB. Beyond it, the keys with the
/// most units left are evicted first.
const KEYS_MAX: usize = 100_000;

/// The local counters of one outage. All budgets are empty when the outage begins, so an attacker
/// gains nothing by causing outages. Clones share the counters.
#[derive(Clone, Debug)]
pub(in crate::limiter) struct LocalFallback {
    pub(super) store: MemoryStore,
}

impl LocalFallback {
    pub(in crate::limiter) fn new(clock: Arc<dyn Clock>, since: Micros) -> Self {
        let store = MemoryStore::builder()
            .keys_max(KEYS_MAX)
            .shared_clock(clock)
            .empty_since(since)
            .build();
        Self { store }
    }

    /// The same demand on this process's share of the quota.
    pub(super) fn share<'d>(demand: &Demand<'d>) -> Demand<'d> {
        let share = demand.quota().share(demand.limit.replicas());
        demand.with_quota(Some(share))
    }

    /// Returns the units that demands have spent.
    pub(in crate::limiter) fn refund(&self, demands: &[Demand<'_>]) {
        let shares: Vec<Demand<'_>> = demands.iter().map(Self::share).collect();
        // The memory store has done the refund when the call returns.
        drop(self.store.refund(&shares));
    }

    /// Releases a permit; false if it has already ended, or was not acquired here.
    pub(in crate::limiter) fn release(&self, demand: &Demand<'_>, permit_id: PermitId) -> bool {
        self.store.release_permit(demand, permit_id)
    }

    /// Restarts a permit's timeout; false if the permit has already ended.
    pub(in crate::limiter) fn renew(&self, demand: &Demand<'_>, permit_id: PermitId) -> bool {
        self.store.renew_permit(demand, permit_id)
    }
}
