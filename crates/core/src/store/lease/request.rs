//! What a store call about a lease requests, and what the store grants.

use super::pending::PendingCall;
use crate::algorithm::remote::CounterState;
use crate::demand::Demand;
use crate::time::Micros;

#[cfg(doc)]
use super::policy::LeaseTerms;

/// What a store call asks for in addition to spending the cost of its demand. The store first
/// settles the units that the instance holds, then spends the cost, then grants more units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The units to grant of what is left after the cost is spent, even if little is left: the
    /// instance spends them soon.
    pub needed: u64,
    /// The units to grant if that is at most an equal share of what is left for each instance that
    /// calls; at least `needed`.
    pub wanted: u64,
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
    /// The time of the store's last reply to this instance about the counter, on the store's
    /// timeline; 0 if there was none. By this the store counts the instances that call.
    pub called_at: Micros,
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
    /// The length of the lease from the moment of the call, [`LeaseTerms::long`] or
    /// [`LeaseTerms::brief`].
    pub length: Micros,
    /// How long the instance should wait before it asks for more, because nothing is left; 0 if
    /// something is.
    pub turn_after: Micros,
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
#[derive(Clone, Debug)]
pub(super) struct CallRequest {
    pub(super) lease: LeaseRequest,
    pub(super) cost: u64,
    /// When the call was created, on this instance's clock. The life of the lease starts here, so
    /// that it expires in the instance before it expires at the store.
    pub(super) sent_at: Micros,
    /// The call as other requests see it, which wait for it.
    pub(super) pending: PendingCall,
}

/// Why a store call is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallPurpose<'a> {
    /// A request waits for the decision of this demand.
    Decide(&'a Demand<'a>),
    /// The leased units are running low.
    Renew,
    /// The leased units are idle, or units were spent that the store does not know about yet.
    Return,
}
