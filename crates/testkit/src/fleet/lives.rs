//! How processes begin, look after what they hold, and end.

use tollgate::lease::SWEEP_EVERY;

use super::events::{Event, Who};
use super::world::{TIMEOUT, World};

impl World<'_> {
    pub(super) fn sweep(&mut self, who: Who) {
        if !self.is_alive(who) {
            return;
        }
        let Some(leases) = self.replicas[who.place].leases.clone() else {
            return;
        };
        let (trips, _) = leases.sweep();
        trips
            .into_iter()
            .for_each(|trip| self.send(who, trip, None));
        self.queue
            .put(self.now() + SWEEP_EVERY.get(), Event::Sweep(who));
    }

    pub(super) fn start(&mut self, place: usize) {
        self.replicas[place].start(&self.time, self.plan.faults.drift, &mut self.dice);
        self.run.lives += 1;
        let (who, first) = (self.replicas[place].who, self.dice.below(SWEEP_EVERY.get()));
        self.queue.put(self.now() + first, Event::Sweep(who));
    }

    pub(super) fn end(&mut self, place: usize) {
        if self.replicas[place].leases.is_some() {
            self.replicas[place].end();
            let at = self.now() + self.dice.below(300_000);
            self.queue.put(at, Event::Start(place));
        }
    }

    /// Gives everything back, and is gone when the answers should be there.
    pub(super) fn leave(&mut self, place: usize) {
        let who = self.replicas[place].who;
        let Some(leases) = self.replicas[place].leases.clone() else {
            return;
        };
        leases
            .return_leases()
            .0
            .into_iter()
            .for_each(|trip| self.send(who, trip, None));
        self.queue.put(self.now() + TIMEOUT, Event::Crash(place));
    }

    pub(super) fn reset(&mut self, place: usize) {
        if let Some(leases) = &self.replicas[place].leases {
            leases.forget(&self.check.as_demand().key);
        }
        let at = self.now() + self.delay();
        self.queue.put(at, Event::ResetReach);
    }
}
