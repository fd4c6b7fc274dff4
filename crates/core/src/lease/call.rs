//! A store call about the lease of one counter: its request, its grant and its end.

use std::fmt;

use super::entry::LeaseEntry;
use super::pending::PendingCall;
use super::table::{LeaseOutcome, LeaseTable};
use crate::algorithm::remote::CounterState;
use crate::demand::{Demand, DemandBuf};
use crate::memory::fingerprint::Fingerprint;
use crate::store::Source;
use crate::time::Micros;

/// What a store call asks for in addition to spending the cost of its demand. The store first
/// settles the units that the instance holds, then spends the cost, then grants more units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The most units to grant of what is left after the cost is spent.
    pub max_units: u64,
    /// True when the granted units are lent, and count as lent until they are settled. False when
    /// they have been spent already and are only reported.
    pub is_lent: bool,
    /// The generation under which the store counts the held units; 0 when there are none that can
    /// be settled.
    pub generation: u64,
    /// The units that the store counts as lent to this instance.
    pub held: u64,
    /// How many of the held units the instance keeps.
    pub kept: u64,
    /// How many of the held units the instance returns. The others are spent.
    pub returned: u64,
}

/// The reply of the store to a [`LeaseRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseGrant {
    /// The counter after the held units were settled, before the cost was spent and units were
    /// granted.
    pub state: CounterState,
    /// The moment of the call on the store's timeline.
    pub at: Micros,
    /// The number of granted units.
    pub units: u64,
    /// The generation under which the store now counts the held units. For a window it identifies
    /// the window.
    pub generation: u64,
    /// True when the store still knew the held units. If false, they must not be spent any more.
    pub is_known: bool,
}

/// Why a store call got no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// The call was not executed at the store.
    NotExecuted,
    /// The call may have been executed at the store.
    Unknown,
}

/// The content of a store call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallRequest {
    pub(super) lease: LeaseRequest,
    pub(super) cost: u64,
    /// When the call was created, on this instance's clock. The life of the lease starts here, so
    /// that it expires in the instance before it expires at the store.
    pub(super) sent_at: Micros,
}

/// Why a store call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPurpose {
    /// A request waits for its decision.
    Decide,
    /// The leased units are running low.
    Renew,
    /// The leased units are idle.
    Return,
    /// Units were spent locally that the store does not know about yet.
    Report,
}

/// A store call about one counter. The caller ends it with [`complete`](Self::complete) or
/// [`fail`](Self::fail). A call that is dropped counts as failed with [`CallFailure::Unknown`].
pub struct LeaseCall {
    leases: LeaseTable,
    fingerprint: Fingerprint,
    demand: DemandBuf,
    request: CallRequest,
    pending: PendingCall,
    is_finished: bool,
}

impl LeaseCall {
    pub(super) fn new(
        leases: LeaseTable,
        fingerprint: Fingerprint,
        demand: DemandBuf,
        request: CallRequest,
        pending: PendingCall,
    ) -> Self {
        Self {
            leases,
            fingerprint,
            demand,
            request,
            pending,
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

    /// Ends the call with the reply of the store, and returns the outcome for the request that
    /// caused it; `None` when the counter's state in the reply belongs to another algorithm.
    pub fn complete(mut self, grant: &LeaseGrant) -> Option<LeaseOutcome> {
        let request = self.request;
        let applied = self.finish(|entry, now| entry.apply_grant(&request, grant, now));

        // The entry may have been removed meanwhile. The outcome is still valid, and the granted
        // units are not spent.
        let outcome = applied.unwrap_or_else(|| {
            let quota = self.demand.quota();
            quota.outcome(grant.state, request.cost, grant.at)
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
        let lease = self.request.lease;
        self.finish(|entry, _| entry.apply_failure(&lease, failure));
    }

    /// Updates the entry, if it is still the one that started this call, and wakes the requests
    /// that wait for the call.
    fn finish<T>(&mut self, update: impl FnOnce(&mut LeaseEntry, Micros) -> T) -> Option<T> {
        self.is_finished = true;
        let result = self
            .leases
            .finish_call(self.fingerprint, &self.pending, update);
        self.pending.finish();
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
