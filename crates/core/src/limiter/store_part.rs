//! A part of a request that goes over several stores: see [`PartList`](crate::store::PartList).

use crate::algorithm::PermitId;
use crate::demand::Demand;
use crate::memory::MemoryStore;
use crate::store::{Intent, Part, Source, SpendReply, Store, StoreError};

/// A part of a request: the demands on one store.
#[derive(Debug)]
pub(super) enum StorePart<'a> {
    /// Counters in this process, and the source of their outcomes. The counters of the
    /// fallback replace the shared store during an outage. Reservations are settled with the store.
    Memory(&'a MemoryStore, Source),
    /// The shared store. It comes last, so its charges are never undone.
    Shared(&'a dyn Store),
}

impl Part for StorePart<'_> {
    async fn spend(
        &mut self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> Result<SpendReply, StoreError> {
        match self {
            Self::Memory(store, source) => {
                let intent = intent_for(*source, intent);
                let mut reply = store.spend_all(demands, intent, permit_id)?;
                for (_, outcome_source) in reply.outcomes_mut() {
                    *outcome_source = *source;
                }
                Ok(reply)
            }
            Self::Shared(store) => store.spend(demands, intent, permit_id).await,
        }
    }

    fn undo(
        &mut self,
        demands: &[Demand<'_>],
        reply: &SpendReply,
        intent: Intent,
        permit_id: PermitId,
    ) -> SpendReply {
        let Self::Memory(store, source) = self else {
            return reply.clone();
        };

        let charged = reply.charged(demands, intent);
        if intent_for(*source, intent).is_reserve() {
            store.cancel(&charged, permit_id);
        } else {
            drop(store.refund(&charged));
        }
        for demand in charged.iter().filter(|demand| demand.needs_permit()) {
            store.release_permit(demand, permit_id);
        }

        let Ok(peek) = store.spend_all(demands, Intent::Peek, permit_id) else {
            return reply.clone();
        };
        let outcomes = peek.outcomes().iter().map(|(outcome, _)| *outcome);
        SpendReply::new(outcomes, *source, peek.at)
    }
}

/// What counters of this source do: those of the fallback reserve nothing that could be settled.
const fn intent_for(source: Source, intent: Intent) -> Intent {
    match (source, intent) {
        (Source::Fallback, Intent::Reserve { .. }) => Intent::Spend,
        (_, intent) => intent,
    }
}
