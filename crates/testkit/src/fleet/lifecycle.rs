//! The life cycle of replicas: start, maintenance of leases, and end.

use tollgate::store::lease::SWEEP_EVERY;

use super::events::{Event, ReplicaId};
use super::world::{TIMEOUT, World};

impl World<'_> {
    pub(super) fn sweep(&mut self, replica_id: ReplicaId) {
        if !self.is_alive(replica_id) {
            return;
        }

        let Some(leases) = self.replicas[replica_id.slot].leases.clone() else {
            return;
        };

        let (calls, has_entries) = leases.sweep();
        calls
            .into_iter()
            .for_each(|call| self.send(replica_id, call, None));

        self.replicas[replica_id.slot].is_swept = has_entries;
        if has_entries {
            self.queue
                .put(self.now() + SWEEP_EVERY.get(), Event::Sweep(replica_id));
        }
    }

    /// Sweeps a replica's lease table from now on, as a store does from its first entry.
    pub(super) fn start_sweeps(&mut self, replica_id: ReplicaId) {
        let is_swept = &mut self.replicas[replica_id.slot].is_swept;
        if !std::mem::replace(is_swept, true) {
            self.queue
                .put(self.now() + SWEEP_EVERY.get(), Event::Sweep(replica_id));
        }
    }

    pub(super) fn start(&mut self, slot: usize) {
        self.replicas[slot].start(&self.time, self.plan.faults.drift, &mut self.dice);
        self.run.incarnations += 1;
    }

    pub(super) fn end(&mut self, slot: usize) {
        if self.replicas[slot].leases.is_some() {
            self.replicas[slot].end();
            let at = self.now() + self.dice.below(300_000);
            self.queue.put(at, Event::Start(slot));
        }
    }

    /// Returns all leases, and ends when the replies should have arrived.
    pub(super) fn shut_down(&mut self, slot: usize) {
        let replica_id = self.replicas[slot].id;
        let Some(leases) = self.replicas[slot].leases.clone() else {
            return;
        };

        leases
            .return_leases()
            .0
            .into_iter()
            .for_each(|call| self.send(replica_id, call, None));

        self.queue.put(self.now() + TIMEOUT, Event::Crash(slot));
    }

    pub(super) fn reset(&mut self, slot: usize) {
        if let Some(leases) = &self.replicas[slot].leases {
            leases.forget(&self.demand.as_demand().key);
        }
        let at = self.now() + self.delay();
        self.queue.put(at, Event::ResetArrival);
    }
}
