//! Counting in this process while the store is away, against this process's share of each limit.

use std::num::NonZeroU32;
use std::sync::Arc;

use smallvec::SmallVec;

use super::RECOVERY;
use crate::algorithm::{Outcome, PermitId, Quota, Verdict};
use crate::clock::Clock;
use crate::memory::MemoryStore;
use crate::store::{Demand, Intent, Store};
use crate::time::Micros;

/// The most keys counted while the store is away, at most 6 MB. At the cap those nearest to a full
/// budget are forgotten.
const KEYS_MAX: usize = 100_000;

/// The counters of one outage. Buckets had nothing when it began, so that nothing can be gained by
/// making the store fall over, again and again if need be. Clones share the counters.
#[derive(Clone, Debug)]
pub(in crate::limiter) struct Local {
    store: MemoryStore,
    replicas: NonZeroU32,
}

impl Local {
    pub(super) fn new(replicas: NonZeroU32, clock: Arc<dyn Clock>, since: Micros) -> Self {
        let store = MemoryStore::builder()
            .keys_max(KEYS_MAX)
            .shared_clock(clock)
            .empty_since(since)
            .build();
        Self { store, replicas }
    }

    /// Spends the checks together or not at all, and says of each what its share is and what it
    /// answers.
    pub(super) fn spend(
        &self,
        checks: &[Demand<'_>],
        intent: Intent,
        lease: PermitId,
    ) -> SmallVec<[(Quota, Outcome); 1]> {
        if checks.is_empty() {
            return SmallVec::new();
        }
        self.with_shares(checks, |shares| {
            let spent = self.store.spend_together(shares, intent, lease);
            let answers = checks.iter().zip(shares).zip(spent.outcomes);
            answers
                .map(|((whole, share), outcome)| (*share.quota, until_recovery(whole, outcome)))
                .collect()
        })
    }

    /// Gives back what checks took.
    pub(in crate::limiter) fn refund(&self, checks: &[Demand<'_>]) {
        // The memory store has answered once it is asked.
        self.with_shares(checks, |shares| drop(self.store.refund(shares)));
    }

    /// Ends a lease; false when it has already ended, or was never taken here.
    pub(in crate::limiter) fn release(&self, check: &Demand<'_>, lease: PermitId) -> bool {
        self.store.release_place(check, lease)
    }

    /// Starts a lease's time again; false when it has already ended.
    pub(in crate::limiter) fn renew(&self, check: &Demand<'_>, lease: PermitId) -> bool {
        self.store.renew_place(check, lease)
    }

    /// The same checks against this process's share of their limits.
    fn with_shares<T>(&self, checks: &[Demand<'_>], then: impl FnOnce(&[Demand<'_>]) -> T) -> T {
        let quotas: SmallVec<[Quota; 4]> = checks
            .iter()
            .map(|check| check.quota.share(self.replicas))
            .collect();
        let shares = checks
            .iter()
            .zip(&quotas)
            .map(|(check, quota)| Demand { quota, ..*check });
        then(&shares.collect::<SmallVec<[Demand<'_>; 4]>>())
    }
}

/// What never fits into the share may fit into the whole, which can be asked again when the store
/// is back.
fn until_recovery(whole: &Demand<'_>, outcome: Outcome) -> Outcome {
    if outcome.verdict == Verdict::Never && whole.cost <= whole.quota.limit() {
        return Outcome {
            verdict: Verdict::Deny {
                retry_after: RECOVERY,
            },
            ..outcome
        };
    }
    outcome
}
