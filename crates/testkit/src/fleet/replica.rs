//! One replica: its lease table, its clock, and its pending store calls.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate::store::lease::{LeaseCall, LeaseTable};

use super::clock::{DriftingClock, TrueTime};
use super::events::{ReplicaId, Request};
use crate::dice::Dice;

#[derive(Debug)]
pub(super) struct Replica {
    pub(super) id: ReplicaId,
    /// `None` while no replica runs in this slot.
    pub(super) leases: Option<LeaseTable>,
    /// Whether the lease table is swept: it is as long as it has entries.
    pub(super) is_swept: bool,
    /// Until then the replica is paused, and its events are postponed.
    pub(super) paused_until: u64,
    /// Store calls in flight, each with the request that caused it, if any.
    pub(super) calls: HashMap<u64, (LeaseCall, Option<Request>)>,
    /// Requests that wait for another request's store call.
    pub(super) waiting: Vec<Request>,
}

impl Replica {
    pub(super) fn new(slot: usize) -> Self {
        Self {
            id: ReplicaId {
                slot,
                incarnation: 0,
            },
            leases: None,
            is_swept: false,
            paused_until: 0,
            calls: HashMap::new(),
            waiting: Vec::new(),
        }
    }

    /// Starts a new replica with its own clock.
    pub(super) fn start(&mut self, time: &TrueTime, drift: u64, dice: &mut Dice) {
        let gain = i64::try_from(dice.between(0, 2 * drift)).expect("a small number")
            - i64::try_from(drift).expect("a small number");
        let offset = dice.between(1, 4_000_000_000_000_000);

        let clock = DriftingClock {
            time: time.clone(),
            since: time.now(),
            offset,
            gain,
        };

        self.id.incarnation += 1;
        self.leases = Some(LeaseTable::new(Arc::new(clock)));
    }

    /// Ends the replica, with everything in its memory.
    pub(super) fn end(&mut self) {
        self.leases = None;
        self.is_swept = false;
        self.calls.clear();
        self.waiting.clear();
        self.paused_until = 0;
    }
}
