//! The events of a simulation, in order of true time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate::store::lease::{LeaseGrant, LeaseOutcome, LeaseRequest};

/// A request that waits for a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) cost: u64,
    /// Whether another limit of the same request denies it.
    pub(super) is_denied_by_other: bool,
    /// Whether the request has another limit.
    pub(super) has_other_limit: bool,
    pub(super) waits: u32,
    /// When the failure policy decides instead.
    pub(super) deadline: u64,
}

/// A replica: its slot, and which of the successive replicas in that slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplicaId {
    pub(super) slot: usize,
    pub(super) incarnation: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A request arrives at the replica in this slot.
    RequestArrival(usize, Request),
    /// A store call arrives at the store.
    CallArrival {
        replica_id: ReplicaId,
        call: u64,
        cost: u64,
        lease_request: LeaseRequest,
    },
    /// The reply of a store call arrives at the replica.
    CallReply {
        replica_id: ReplicaId,
        call: u64,
        grant: LeaseGrant,
    },
    /// A store call has timed out.
    CallTimeout {
        replica_id: ReplicaId,
        call: u64,
    },
    /// A store call could not be sent.
    CallNotSent {
        replica_id: ReplicaId,
        call: u64,
    },
    /// A check as for a strict limit arrives at the store, and then its reply at the replica.
    CheckArrival(ReplicaId, Request),
    CheckReply(ReplicaId, Request, u64),
    /// Units that another limit denied are returned.
    Undo(ReplicaId, u64, LeaseOutcome),
    Sweep(ReplicaId),
    Crash(usize),
    Shutdown(usize),
    Start(usize),
    Pause(usize, u64),
    /// Another client counts units at the store.
    CountArrival(u64),
    /// The store loses all data.
    Failover,
    /// The key is reset through this replica.
    Reset(usize),
    ResetArrival,
}

impl Event {
    /// The slot of the replica at which the event happens, if any.
    pub(super) fn slot(&self) -> Option<usize> {
        match self {
            Self::RequestArrival(slot, _) | Self::Reset(slot) => Some(*slot),
            Self::CallReply { replica_id, .. }
            | Self::CallTimeout { replica_id, .. }
            | Self::CallNotSent { replica_id, .. }
            | Self::CheckReply(replica_id, ..)
            | Self::Undo(replica_id, ..)
            | Self::Sweep(replica_id) => Some(replica_id.slot),
            _ => None,
        }
    }
}

/// Future events. Those with the same time happen in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<Event>>,
    free: Vec<usize>,
    put: u64,
}

impl Queue {
    pub(super) fn put(&mut self, at: u64, event: Event) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[slot] = Some(event);
        self.heap.push(Reverse((at, self.put, slot)));
        self.put += 1;
    }

    pub(super) fn next(&mut self) -> Option<(u64, Event)> {
        let Reverse((at, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        self.events[slot].take().map(|event| (at, event))
    }
}
