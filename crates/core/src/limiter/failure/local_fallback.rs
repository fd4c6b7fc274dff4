//! The fallback `local`: counts in this process during an outage of the store, against this
//! process's share of each limit.

use std::num::NonZeroU32;
use std::sync::Arc;

use smallvec::SmallVec;

use super::RECOVERY_TIME;
use crate::algorithm::{Outcome, PermitId, Quota, Verdict};
use crate::clock::Clock;
use crate::memory::MemoryStore;
use crate::store::{Demand, Intent, Store};
use crate::time::Micros;

/// The maximum number of keys counted during an outage, at most 6 MB. Beyond it, the keys with the
/// most units left are evicted first.
const KEYS_MAX: usize = 100_000;

/// The local counters of one outage. All budgets are empty when the outage begins, so an attacker
/// gains nothing by causing outages. Clones share the counters.
#[derive(Clone, Debug)]
pub(in crate::limiter) struct LocalFallback {
    store: MemoryStore,
    replicas: NonZeroU32,
}

impl LocalFallback {
    pub(super) fn new(replicas: NonZeroU32, clock: Arc<dyn Clock>, since: Micros) -> Self {
        let store = MemoryStore::builder()
            .keys_max(KEYS_MAX)
            .shared_clock(clock)
            .empty_since(since)
            .build();
        Self { store, replicas }
    }

    /// Spends all demands or none. Returns for each demand this process's share of the quota and
    /// the outcome.
    pub(super) fn spend(
        &self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> SmallVec<[(Quota, Outcome); 1]> {
        if demands.is_empty() {
            return SmallVec::new();
        }

        self.with_shares(demands, |shares| {
            let reply = self.store.spend_all(shares, intent, permit_id);
            let rows = demands.iter().zip(shares).zip(reply.outcomes);
            rows.map(|((whole, share), outcome)| {
                (*share.quota, deny_until_recovery(whole, outcome))
            })
            .collect()
        })
    }

    /// Returns the units that demands have spent.
    pub(in crate::limiter) fn refund(&self, demands: &[Demand<'_>]) {
        // The memory store has done the refund when the call returns.
        self.with_shares(demands, |shares| drop(self.store.refund(shares)));
    }

    /// Releases a permit; false if it has already ended, or was not acquired here.
    pub(in crate::limiter) fn release(&self, demand: &Demand<'_>, permit_id: PermitId) -> bool {
        self.store.release_permit(demand, permit_id)
    }

    /// Restarts a permit's timeout; false if the permit has already ended.
    pub(in crate::limiter) fn renew(&self, demand: &Demand<'_>, permit_id: PermitId) -> bool {
        self.store.renew_permit(demand, permit_id)
    }

    /// Calls `then` with the same demands on this process's share of their quotas.
    fn with_shares<T>(&self, demands: &[Demand<'_>], then: impl FnOnce(&[Demand<'_>]) -> T) -> T {
        let quotas: SmallVec<[Quota; 4]> = demands
            .iter()
            .map(|demand| demand.quota.share(self.replicas))
            .collect();
        let shares = demands
            .iter()
            .zip(&quotas)
            .map(|(demand, quota)| Demand { quota, ..*demand });
        then(&shares.collect::<SmallVec<[Demand<'_>; 4]>>())
    }
}

/// Turns "never" into a denial until the store's recovery, if the cost exceeds only the share and
/// not the whole limit.
fn deny_until_recovery(whole: &Demand<'_>, outcome: Outcome) -> Outcome {
    if outcome.verdict == Verdict::Never && whole.cost <= whole.quota.limit() {
        return Outcome {
            verdict: Verdict::Deny {
                retry_after: RECOVERY_TIME,
            },
            ..outcome
        };
    }
    outcome
}
