//! A store call about the lease of one counter, from its start to its end.

use std::fmt;
use std::sync::Arc;

use super::entry::LeaseEntry;
use super::policy::{LeaseTerms, lease_life};
use super::request::{CallFailure, CallPurpose, CallRequest, LeaseGrant, LeaseRequest};
use super::shard::LeaseShards;
use crate::algorithm::Outcome;
use crate::demand::{Demand, DemandBuf};
use crate::key::Fingerprint;
use crate::store::{Source, SpendReply};
use crate::time::Micros;

/// The outcome of a demand for a leased or eventual limit.
#[derive(Clone, Copy, Debug)]
pub struct LeaseOutcome {
    /// The outcome of the limit.
    pub outcome: Outcome,
    /// Where the outcome came from: a lease, the deny cache or the store.
    pub source: Source,
    /// The moment of the decision on the store's timeline, extrapolated if no store call was
    /// made.
    pub at: Micros,
    /// The generation of the lease from which the units came.
    pub(super) generation: u64,
}

impl From<LeaseOutcome> for SpendReply {
    fn from(decided: LeaseOutcome) -> Self {
        Self::from_sources([(decided.outcome, decided.source)], decided.at)
    }
}

/// A store call about one counter. The caller ends it with [`complete`](Self::complete) or
/// [`fail`](Self::fail). A call that is dropped counts as failed with [`CallFailure::Unknown`].
pub struct LeaseCall {
    shards: Arc<LeaseShards>,
    fingerprint: Fingerprint,
    demand: DemandBuf,
    request: CallRequest,
    is_finished: bool,
}

impl LeaseCall {
    /// Starts a call. It spends a demand only if the purpose is to decide one.
    #[cold]
    pub(super) fn start(
        shards: &Arc<LeaseShards>,
        fingerprint: Fingerprint,
        entry: &mut LeaseEntry,
        purpose: CallPurpose<'_>,
        now: Micros,
    ) -> Self {
        let demand = match purpose {
            CallPurpose::Decide(demand) => demand.to_buf(),
            CallPurpose::Renew | CallPurpose::Return => entry.demand().clone().with_cost(0),
        };
        Self {
            shards: shards.clone(),
            fingerprint,
            request: entry.start_call(purpose, demand.cost, now),
            demand,
            is_finished: false,
        }
    }

    /// The demand to send to the store.
    pub fn demand(&self) -> Demand<'_> {
        self.demand.as_demand()
    }

    /// The lease request to send with the demand.
    pub const fn lease_request(&self) -> &LeaseRequest {
        &self.request.lease
    }

    /// How long to wait for the reply, from the start of the call on: until the lease that it asks
    /// for ends. Until then the reply is used, however late it is.
    pub fn reply_timeout(&self) -> Micros {
        lease_life(LeaseTerms::for_quota(self.demand().quota()).long)
    }

    /// Reports that the reply did not come by the deadline of a decision. From now on, no request
    /// waits for it: the store decides demands as for a strict limit until the call ends.
    pub fn mark_overdue(&self) {
        self.request.pending.mark_overdue();
    }

    /// Ends the call with the reply of the store, and returns the outcome for the request that
    /// caused it; `None` when the counter's state in the reply belongs to another algorithm.
    pub fn complete(mut self, grant: &LeaseGrant) -> Option<LeaseOutcome> {
        let applied = self.finish(|entry, request, now| entry.apply_grant(request, grant, now));

        // The entry may have been removed meanwhile. The outcome is still valid, and the granted
        // units are not spent.
        let outcome = applied.unwrap_or_else(|| {
            let demand = self.demand();
            demand.quota().outcome(grant.state, demand.cost, grant.at)
        });
        outcome.map(|outcome| LeaseOutcome {
            outcome,
            source: Source::Store,
            at: grant.at,
            generation: grant.generation,
        })
    }

    /// Ends the call without a reply of the store.
    pub fn fail(mut self, failure: CallFailure) {
        self.abort(failure);
    }

    fn abort(&mut self, failure: CallFailure) {
        self.finish(|entry, request, _| entry.apply_failure(&request.lease, failure));
    }

    /// Updates the entry, if it is still the one that started this call, and wakes the requests
    /// that wait for the call.
    fn finish<T>(
        &mut self,
        update: impl FnOnce(&mut LeaseEntry, &CallRequest, Micros) -> T,
    ) -> Option<T> {
        self.is_finished = true;
        let request = &self.request;
        let (now, mut shard) = self.shards.lock(self.fingerprint);
        let entry = shard.entries.get_mut(&self.fingerprint);
        let result = entry
            .filter(|entry| entry.is_pending_call(&request.pending))
            .map(|entry| update(entry, request, now));
        shard.queue_sweep(self.fingerprint, now);

        drop(shard);
        request.pending.finish();
        result
    }
}

impl Drop for LeaseCall {
    fn drop(&mut self) {
        if !self.is_finished {
            self.abort(CallFailure::Unknown);
        }
    }
}

/// Omits the key, which may identify a person.
impl fmt::Debug for LeaseCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseCall")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
