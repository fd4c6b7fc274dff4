//! The lease entries in shards: the entries behind one lock, and the queues of entries that need
//! attention.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::entry::LeaseEntry;
use super::policy::{KEYS_MAX, REVIEW_EVERY};
use crate::clock::ClockSource;
use crate::demand::Demand;
use crate::key::{Fingerprint, Fingerprinter};
use crate::lock::{PaddedGuard, PaddedMutex};
use crate::time::Micros;

/// The number of shards, a power of two.
const SHARDS: usize = 64;
/// How many entries a full shard examines to make room for another.
const MAKE_ROOM_TRIES: usize = 8;

/// All entries of an instance, and the clock by which they live.
pub(super) struct LeaseShards {
    pub(super) clock: ClockSource,
    pub(super) fingerprinter: Fingerprinter,
    pub(super) shards: Box<[PaddedMutex<LeaseShard>]>,
}

impl LeaseShards {
    pub(super) fn new(clock: ClockSource) -> Self {
        Self {
            clock,
            fingerprinter: Fingerprinter::with_random_seeds(),
            shards: (0..SHARDS).map(|_| PaddedMutex::default()).collect(),
        }
    }

    /// Reads the clock and locks the shard of a counter.
    #[inline]
    pub(super) fn lock(&self, fingerprint: Fingerprint) -> (Micros, PaddedGuard<'_, LeaseShard>) {
        let now = self.clock.now();
        let shard = self.shards[fingerprint.high as usize & (SHARDS - 1)].lock();
        (now, shard)
    }
}

/// The entries of some counters, and the queues in which they wait for a sweep or their removal.
#[derive(Default)]
pub(super) struct LeaseShard {
    pub(super) entries: HashMap<Fingerprint, LeaseEntry, BuildHasherDefault<IdentityHasher>>,
    /// The entries that hold units, by the time of their next sweep.
    sweep_queue: BinaryHeap<Reverse<(Micros, Fingerprint)>>,
    /// The entries that may be removed, by the time of the next attempt.
    removal_queue: VecDeque<(Micros, Fingerprint)>,
}

/// Uses a fingerprint as its own hash, because it is a hash already.
#[derive(Default)]
pub(super) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a fingerprint is written as one number");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low);
    }
}

impl LeaseShard {
    /// The entry of a counter, created if there is room for it. Returns `None` when the shard is
    /// full, or when a call with another quota is in flight.
    pub(super) fn entry(
        &mut self,
        fingerprint: Fingerprint,
        demand: &Demand<'_>,
        now: Micros,
    ) -> Option<&mut LeaseEntry> {
        match self.entries.get(&fingerprint) {
            Some(entry) if entry.matches_quota(demand.quota()) => {
                return self.entries.get_mut(&fingerprint);
            }
            Some(entry) if entry.pending.is_some() => return None,
            Some(_) => {}
            None => {
                if self.entries.len() >= KEYS_MAX / SHARDS && !self.make_room(now) {
                    return None;
                }
                let due = now.after(REVIEW_EVERY);
                self.removal_queue.push_back((due, fingerprint));
            }
        }

        let mut entry = LeaseEntry::new(demand, now);
        if let Some(old) = self.entries.get(&fingerprint) {
            entry.carry_over(old);
        }
        self.entries.insert(fingerprint, entry);
        self.entries.get_mut(&fingerprint)
    }

    /// Adds an entry that holds units to the sweep queue, unless it is there already.
    #[inline]
    pub(super) fn queue_sweep(&mut self, fingerprint: Fingerprint, now: Micros) {
        let entry = self.entries.get_mut(&fingerprint);
        if let Some(entry) = entry.filter(|entry| entry.needs_sweep()) {
            entry.is_in_sweep_queue = true;
            let due = entry.sweep_at(now);
            self.sweep_queue.push(Reverse((due, fingerprint)));
        }
    }

    /// Passes the entries that are due for a sweep to `visit`, and removes unneeded
    /// entries.
    pub(super) fn sweep(
        &mut self,
        now: Micros,
        mut visit: impl FnMut(&mut LeaseEntry, Fingerprint),
    ) {
        while let Some(Reverse((due, fingerprint))) = self.sweep_queue.peek().copied()
            && due <= now
        {
            self.sweep_queue.pop();
            if let Some(entry) = self.entries.get_mut(&fingerprint) {
                entry.is_in_sweep_queue = false;
                visit(entry, fingerprint);
                self.queue_sweep(fingerprint, now);
            }
        }

        // An entry is in the removal queue from its creation to its removal.
        while let Some(fingerprint) = pop_due(&mut self.removal_queue, now) {
            let entry = self.entries.get(&fingerprint);
            if entry.is_some_and(|entry| entry.is_removable(now)) {
                self.entries.remove(&fingerprint);
            } else if entry.is_some() {
                let due = now.after(REVIEW_EVERY);
                self.removal_queue.push_back((due, fingerprint));
            }
        }

        // Frees the memory of the map and the queues.
        if self.entries.is_empty() {
            *self = Self::default();
        }
    }
}

impl LeaseShard {
    /// Removes an entry that only remembers the demand for its key. Returns false if none is found
    /// among the oldest.
    fn make_room(&mut self, now: Micros) -> bool {
        for _ in 0..MAKE_ROOM_TRIES {
            let Some((due, fingerprint)) = self.removal_queue.pop_front() else {
                return false;
            };
            if self
                .entries
                .get(&fingerprint)
                .is_none_or(|entry| entry.is_empty(now))
            {
                self.entries.remove(&fingerprint);
                return true;
            }
            self.removal_queue.push_back((due, fingerprint));
        }
        false
    }
}

/// Removes and returns the first element of a queue if its time has come.
fn pop_due(queue: &mut VecDeque<(Micros, Fingerprint)>, now: Micros) -> Option<Fingerprint> {
    let (_, fingerprint) = queue.front().filter(|(due, _)| *due <= now).copied()?;
    queue.pop_front();
    Some(fingerprint)
}
