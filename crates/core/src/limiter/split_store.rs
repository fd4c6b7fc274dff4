//! Limits of this process alone beside limits that a store shares: one store made of two.
//!
//! A request over both is still all or nothing. The counters of this process are asked first,
//! because they answer at once and for nothing; what they gave is given back when the shared store
//! then refuses or does not answer. So a request may for a moment see less than there is, and never
//! more.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::algorithm::{Outcome, PermitId};
use crate::decision::Source;
use crate::key::Key;
use crate::memory::MemoryStore;
use crate::store::{
    Demand, DemandBuf, Intent, OutcomeSources, SpendReply, Store, StoreError, StoreFuture,
};

/// The counters of this process, and the store for all others.
#[derive(Clone, Debug)]
pub(super) struct Scoped {
    pub(super) own: MemoryStore,
    pub(super) shared: Arc<dyn Store>,
}

type Checks<'c> = SmallVec<[Demand<'c>; 4]>;

impl Scoped {
    fn of(&self, key: &Key<'_>) -> &dyn Store {
        if key.is_local() {
            &self.own
        } else {
            &*self.shared
        }
    }
}

impl Store for Scoped {
    fn spend<'a>(
        &'a self,
        checks: &[Demand<'_>],
        intent: Intent,
        lease: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        let (own, shared) = split(checks);
        if shared.is_empty() {
            return self.own.spend(&own, intent, lease);
        }
        if own.is_empty() {
            return self.shared.spend(&shared, intent, lease);
        }
        let taken = self.own.spend_together(&own, intent, lease);
        // What is refused here is refused there too, and both tell where they stand.
        let intent = if refuses(&own, &taken.outcomes) {
            Intent::Peek
        } else {
            intent
        };
        let answer = self.shared.spend(&shared, intent, lease);
        let halves = Halves {
            is_own: checks.iter().map(|check| check.key.is_local()).collect(),
            own: own.iter().map(Demand::to_buf).collect(),
            shadows: shared.iter().map(|check| check.shadow).collect(),
            taken: taken.outcomes,
            intent,
            lease,
        };
        match answer {
            StoreFuture::Ready(answer) => {
                StoreFuture::Ready(answer.map(|answer| halves.join(&self.own, answer)))
            }
            StoreFuture::Pending(answer) => {
                StoreFuture::Pending(Box::pin(async { halves.join(&self.own, answer.await) }))
            }
        }
    }

    #[inline]
    fn try_spend(
        &self,
        check: &Demand<'_>,
        intent: Intent,
        lease: PermitId,
    ) -> Option<(Outcome, Source)> {
        self.of(&check.key).try_spend(check, intent, lease)
    }

    #[inline]
    fn try_is_allowed(&self, check: &Demand<'_>) -> Option<bool> {
        self.of(&check.key).try_is_allowed(check)
    }

    fn refund<'a>(&'a self, checks: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        let (own, shared) = split(checks);
        if !own.is_empty() {
            // The memory store has answered once it is asked.
            drop(self.own.refund(&own));
        }
        if shared.is_empty() {
            StoreFuture::ready(Ok(()))
        } else {
            self.shared.refund(&shared)
        }
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        self.of(key).reset(key)
    }

    fn release<'a>(&'a self, check: &Demand<'_>, lease: PermitId) -> StoreFuture<'a, bool> {
        self.of(&check.key).release(check, lease)
    }

    fn renew<'a>(&'a self, check: &Demand<'_>, lease: PermitId) -> StoreFuture<'a, bool> {
        self.of(&check.key).renew(check, lease)
    }

    fn return_leases(&self) -> StoreFuture<'_, ()> {
        self.shared.return_leases()
    }
}

/// A request of which this process has answered its part.
struct Halves {
    is_own: SmallVec<[bool; 4]>,
    own: SmallVec<[DemandBuf; 4]>,
    shadows: SmallVec<[bool; 4]>,
    taken: SmallVec<[Outcome; 1]>,
    intent: Intent,
    lease: PermitId,
}

impl Halves {
    /// The whole answer, once the shared store has given its part or failed to.
    fn join(
        self,
        store: &MemoryStore,
        answer: Result<SpendReply, StoreError>,
    ) -> Result<SpendReply, StoreError> {
        let refused = |spent: &SpendReply| {
            let mut both = self.shadows.iter().zip(&spent.outcomes);
            both.any(|(shadow, outcome)| !shadow && !outcome.verdict.is_allowed())
        };
        let is_kept = answer.as_ref().is_ok_and(|spent| !refused(spent));
        let own: Checks<'_> = self.own.iter().map(DemandBuf::as_demand).collect();
        let taken = if is_kept || self.intent == Intent::Peek {
            self.taken
        } else {
            give_back(store, &own, self.lease);
            store
                .spend_together(&own, Intent::Peek, self.lease)
                .outcomes
        };
        answer.map(
            |SpendReply {
                 outcomes,
                 sources: told,
                 at,
             }| {
                let (mut own, mut shared) = (taken.into_iter(), outcomes.into_iter().enumerate());
                let mut sources = OutcomeSources::default();
                let in_order = self
                    .is_own
                    .iter()
                    .enumerate()
                    .filter_map(|(index, is_own)| {
                        if *is_own {
                            return own.next();
                        }
                        let (place, outcome) = shared.next()?;
                        sources.set(index, told.get(place));
                        Some(outcome)
                    });
                SpendReply {
                    outcomes: in_order.collect(),
                    sources,
                    at,
                }
            },
        )
    }
}

/// Undoes a spend in memory.
pub(super) fn give_back(store: &MemoryStore, checks: &[Demand<'_>], lease: PermitId) {
    drop(store.refund(checks));
    for check in checks.iter().filter(|check| check.needs_permit()) {
        store.release_place(check, lease);
    }
}

/// The checks of this process, and those of the shared store.
pub(super) fn split<'c>(checks: &[Demand<'c>]) -> (Checks<'c>, Checks<'c>) {
    checks
        .iter()
        .copied()
        .partition(|check| check.key.is_local())
}

/// True when a check that is not a shadow does not pass.
pub(super) fn refuses(checks: &[Demand<'_>], outcomes: &[Outcome]) -> bool {
    let mut both = checks.iter().zip(outcomes);
    both.any(|(check, outcome)| !check.shadow && !outcome.verdict.is_allowed())
}
