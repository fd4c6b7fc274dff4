//! The fallback `local`: this process decides by its share of each limit while the store is
//! unavailable.

use std::sync::Arc;

use crate::algorithm::{Outcome, PermitId, Verdict};
use crate::clock::Clock;
use crate::demand::Demand;
use crate::key::Key;
use crate::limit::FailurePolicy;
use crate::memory::MemoryStore;
use crate::store::{Source, Store};

/// The maximum number of keys with a counter, at most 6 MB. Beyond it, the keys with the most units
/// left are evicted first.
const KEYS_MAX: usize = 100_000;

/// The local counters, which outlive the outages. A key without a counter has its whole share; a
/// counter is dropped when it has refilled to that.
///
/// A counter is charged with what this process admits by itself and, while an outage is recent,
/// with what the store admits. If that does not fit, the counter owes it, up to another share. So
/// the two together admit what the limit allows, however often the store fails. A denial by the
/// store drains the counter, so a key that is being denied gains nothing from an outage.
#[derive(Debug)]
pub(in crate::limiter) struct LocalFallback {
    store: MemoryStore,
}

impl LocalFallback {
    pub(in crate::limiter) fn new(clock: Arc<dyn Clock>) -> Self {
        let store = MemoryStore::builder()
            .keys_max(KEYS_MAX)
            .shared_clock(clock)
            .build();
        Self { store }
    }

    /// True when the demand is decided by the local counters while the store is unavailable.
    pub(in crate::limiter) fn decides(demand: &Demand<'_>) -> bool {
        demand.limit.on_store_failure() == FailurePolicy::Local && !demand.key.is_local()
    }

    /// The same demand on this process's share of the quota.
    pub(super) fn share<'d>(demand: &Demand<'d>) -> Demand<'d> {
        let share = demand.quota().share(demand.limit.replicas());
        demand.with_quota(Some(share))
    }

    pub(in crate::limiter) const fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// Charges a demand that the store has admitted.
    pub(in crate::limiter) fn charge(&self, demand: &Demand<'_>) {
        self.store.charge(&Self::share(demand));
    }

    /// Drains the counters of the limits by which the store denied a request: at most this
    /// process's share of what the store has left remains. A key that the store has locked out
    /// stays locked here.
    pub(in crate::limiter) fn record_denials(
        &self,
        demands: &[Demand<'_>],
        outcomes: &[(Outcome, Source)],
    ) {
        for (demand, (outcome, _)) in demands.iter().zip(outcomes) {
            if is_denial(outcome) && Self::decides(demand) {
                let remaining = outcome.remaining / u64::from(demand.limit.replicas().get());
                self.store.drain(&Self::share(demand), remaining);
                self.store.lock_out(demand, outcome.lock);
            }
        }
    }

    /// Returns the units that demands have spent.
    pub(in crate::limiter) fn refund(&self, demands: &[Demand<'_>]) {
        let counters: Vec<Demand<'_>> = demands.iter().map(Self::share).collect();
        // The memory store has done the refund when the call returns.
        drop(self.store.refund(&counters));
    }

    /// Releases a permit; false if it has already ended, or was not acquired here.
    pub(in crate::limiter) fn release(&self, demand: &Demand<'_>, permit_id: PermitId) -> bool {
        self.store.release_permit(demand, permit_id)
    }

    /// Drops a counter: the key has its whole share again.
    pub(in crate::limiter) fn reset(&self, key: &Key<'_>) {
        // The memory store has done the reset when the call returns.
        drop(self.store.reset(key));
    }
}

/// True when the store denied a demand that it may allow later.
pub(in crate::limiter) const fn is_denial(outcome: &Outcome) -> bool {
    matches!(outcome.verdict, Verdict::Deny { .. })
}
