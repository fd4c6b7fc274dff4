//! What is asked of the store about one counter, and what it gives.

use std::fmt;

use super::entry::Entry;
use super::pending::PendingCall;
use super::table::{LeaseOutcome, LeaseTable};
use crate::algorithm::remote::CounterState;
use crate::decision::Source;
use crate::memory::fingerprint::Fingerprint;
use crate::store::{Demand, DemandBuf};
use crate::time::Micros;

/// What a trip asks for beside the cost of its check. The store settles first, then spends the
/// cost, then gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Units more, at most, of what is left once the cost is spent.
    pub most: u64,
    /// They are lent, and count as out until they are settled; otherwise they are spent already.
    pub is_lent: bool,
    /// The name under which the store counts what we hold; 0 when we hold nothing that can be
    /// settled.
    pub generation: u64,
    /// So many units.
    pub held: u64,
    /// Of these we go on holding so many, ...
    pub keep: u64,
    /// ... and give so many back. The others are spent.
    pub back: u64,
}

/// What the store gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseGrant {
    /// The counter once the trip was settled, before its cost was spent and units were given.
    pub seen: CounterState,
    /// The moment on the store's timeline.
    pub at: Micros,
    /// Units more.
    pub units: u64,
    /// The name under which it counts what we hold now. In a window, which window it is.
    pub generation: u64,
    /// It still knew what we held. If not, that is worth nothing any more.
    pub is_kept: bool,
}

/// Why a trip did not bring an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// It did not run at the store.
    NotSent,
    /// It may have run.
    Unknown,
}

/// What a trip asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallRequest {
    pub(super) take: LeaseRequest,
    pub(super) cost: u64,
    /// When it left, on this process's clock: what it brings is counted from here, so that it ends
    /// here before it ends at the store.
    pub(super) at: Micros,
}

/// Why a trip is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPurpose {
    /// A request needs an answer.
    Decide,
    /// The lease is running low.
    Renew,
    /// The lease is not used.
    Return,
    /// The store has not been told for a while.
    Merge,
}

/// A trip to the store about one counter. Whoever makes it says how it ended; if nobody does, it
/// counts as lost.
pub struct LeaseCall {
    leases: LeaseTable,
    print: Fingerprint,
    check: DemandBuf,
    asked: CallRequest,
    flight: PendingCall,
    has_landed: bool,
}

impl LeaseCall {
    pub(super) fn new(
        leases: LeaseTable,
        print: Fingerprint,
        check: DemandBuf,
        asked: CallRequest,
        flight: PendingCall,
    ) -> Self {
        Self {
            leases,
            print,
            check,
            asked,
            flight,
            has_landed: false,
        }
    }

    /// The check to put to the store.
    pub fn demand(&self) -> Demand<'_> {
        self.check.as_demand()
    }

    /// What to ask for beside it.
    pub const fn request(&self) -> &LeaseRequest {
        &self.asked.take
    }

    /// The store has answered. Gives the answer to the request that asked; `None` when what the
    /// store said is of another algorithm.
    pub fn complete(mut self, given: &LeaseGrant) -> Option<LeaseOutcome> {
        let asked = self.asked;
        let said = self.land(|entry, now| {
            let outcome = entry.arrive(&asked, given, now)?;
            Some(LeaseOutcome {
                outcome,
                source: Source::Store,
                at: given.at,
                generation: given.generation,
            })
        });
        // Forgotten meanwhile: the answer stands, and what was given is not spent.
        said.unwrap_or_else(|| {
            let outcome = self.check.quota.outcome(given.seen, asked.cost, given.at)?;
            Some(LeaseOutcome {
                outcome,
                source: Source::Store,
                at: given.at,
                generation: given.generation,
            })
        })
    }

    /// No answer came.
    pub fn fail(mut self, lost: CallFailure) {
        self.give_up(lost);
    }

    fn give_up(&mut self, lost: CallFailure) {
        let take = self.asked.take;
        self.land(|entry, _| entry.lose(&take, lost));
    }

    /// Changes the entry, if it is still the one that sent this, and wakes those who wait.
    fn land<T>(&mut self, then: impl FnOnce(&mut Entry, Micros) -> T) -> Option<T> {
        self.has_landed = true;
        let landed = self.leases.settle(self.print, &self.flight, then);
        self.flight.land();
        landed
    }
}

impl Drop for LeaseCall {
    fn drop(&mut self) {
        if !self.has_landed {
            self.give_up(CallFailure::Unknown);
        }
    }
}

/// Without the key, which names a person.
impl fmt::Debug for LeaseCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseCall")
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}
