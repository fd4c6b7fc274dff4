//! One process: its lease table, its clock, and what it waits for.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate::lease::{LeaseCall, LeaseTable};

use super::clock::{OwnClock, TrueTime};
use super::events::{Request, Who};
use crate::dice::Dice;

#[derive(Debug)]
pub(super) struct Replica {
    pub(super) who: Who,
    /// `None` while nobody is there.
    pub(super) leases: Option<LeaseTable>,
    /// Until then it does nothing, and what comes for it waits.
    pub(super) paused_until: u64,
    /// Trips under way, with the request that made each, if one did.
    pub(super) trips: HashMap<u64, (LeaseCall, Option<Request>)>,
    /// Requests that wait for a trip to land.
    pub(super) waiting: Vec<Request>,
}

impl Replica {
    pub(super) fn new(place: usize) -> Self {
        Self {
            who: Who { place, life: 0 },
            leases: None,
            paused_until: 0,
            trips: HashMap::new(),
            waiting: Vec::new(),
        }
    }

    /// A new process begins, on a clock of its own.
    pub(super) fn start(&mut self, time: &TrueTime, drift: u64, dice: &mut Dice) {
        let gain = i64::try_from(dice.between(0, 2 * drift)).expect("a small part")
            - i64::try_from(drift).expect("the same");
        let offset = dice.between(1, 4_000_000_000_000_000);
        let clock = OwnClock {
            time: time.clone(),
            since: time.now(),
            offset,
            gain,
        };
        self.who.life += 1;
        self.leases = Some(LeaseTable::new(Arc::new(clock)));
    }

    /// It is gone, with everything it knew.
    pub(super) fn end(&mut self) {
        self.leases = None;
        self.trips.clear();
        self.waiting.clear();
        self.paused_until = 0;
    }
}
