//! What happens, in the order of true time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate::lease::{LeaseGrant, LeaseOutcome, LeaseRequest};

/// A request that wants an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) cost: u64,
    /// It is about another limit too, which refuses it.
    pub(super) is_undone: bool,
    /// It is about another limit too.
    pub(super) is_among: bool,
    pub(super) waits: u32,
    /// When it is answered by the failure policy instead.
    pub(super) deadline: u64,
}

/// Which process: its place and which of those that were there, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) place: usize,
    pub(super) life: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A request comes to whoever is at this place.
    Arrive(usize, Request),
    /// A trip reaches the store.
    Reach {
        trip: u64,
        cost: u64,
        take: LeaseRequest,
    },
    /// Its answer reaches the process.
    Answer {
        who: Who,
        trip: u64,
        given: LeaseGrant,
    },
    /// No answer came in time.
    Deadline {
        who: Who,
        trip: u64,
    },
    /// The trip never left.
    Unsent {
        who: Who,
        trip: u64,
    },
    /// A request put to the store as for a strict limit reaches it, and its answer the process.
    Ask(Who, Request),
    AskAnswer(Who, Request, u64),
    /// What another limit refused is given back.
    Undo(Who, u64, LeaseOutcome),
    Sweep(Who),
    Crash(usize),
    Leave(usize),
    Start(usize),
    Pause(usize, u64),
    /// The store forgets everything.
    Failover,
    /// Somebody resets the key.
    Reset(usize),
    ResetReach,
}

impl Event {
    /// The process it happens at, if it does.
    pub(super) fn place(&self) -> Option<usize> {
        match self {
            Self::Arrive(place, _) | Self::Reset(place) => Some(*place),
            Self::Answer { who, .. }
            | Self::Deadline { who, .. }
            | Self::Unsent { who, .. }
            | Self::AskAnswer(who, ..)
            | Self::Undo(who, ..)
            | Self::Sweep(who) => Some(who.place),
            _ => None,
        }
    }
}

/// The events to come. Those of the same moment happen in the order in which they were put there.
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
