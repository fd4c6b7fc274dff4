//! One shard of the lease table: the entries behind one lock, and the queues of entries that need
//! attention.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::entry::LeaseEntry;
use super::policy::{KEYS_MAX, REMOVE_AFTER, SWEEP_EVERY};
use super::table::SHARDS;
use crate::demand::Demand;
use crate::memory::fingerprint::Fingerprint;
use crate::time::Micros;

/// The entries of some counters, and the queues in which they wait for a sweep or their removal.
#[derive(Default)]
pub(super) struct LeaseShard {
    pub(super) entries: HashMap<Fingerprint, LeaseEntry, BuildHasherDefault<IdentityHasher>>,
    /// The entries that hold units, by the time of their next sweep.
    sweep_queue: VecDeque<(Micros, Fingerprint)>,
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
        let mut entry = match self.entries.get(&fingerprint) {
            Some(entry) if entry.matches_quota(demand.quota()) => {
                return self.entries.get_mut(&fingerprint);
            }
            Some(entry) if entry.has_pending_call() => return None,
            None if self.entries.len() >= KEYS_MAX / SHARDS => return None,
            _ => LeaseEntry::new(demand, now),
        };

        if let Some(old) = self.entries.get(&fingerprint) {
            entry.carry_over(old);
            entry.is_in_sweep_queue = old.is_in_sweep_queue;
            entry.is_in_removal_queue = old.is_in_removal_queue;
        }
        self.entries.insert(fingerprint, entry);
        self.queue_removal(fingerprint, now);
        self.entries.get_mut(&fingerprint)
    }

    /// Adds an entry to the removal queue, unless it is there already.
    fn queue_removal(&mut self, fingerprint: Fingerprint, now: Micros) {
        if let Some(entry) = self
            .entries
            .get_mut(&fingerprint)
            .filter(|entry| !entry.is_in_removal_queue)
        {
            entry.is_in_removal_queue = true;
            self.removal_queue
                .push_back((now.after(REMOVE_AFTER), fingerprint));
        }
    }

    /// Adds an entry that holds units to the sweep queue, unless it is there already.
    #[inline]
    pub(super) fn queue_sweep(&mut self, fingerprint: Fingerprint, now: Micros) {
        if let Some(entry) = self
            .entries
            .get_mut(&fingerprint)
            .filter(|entry| entry.needs_sweep())
        {
            entry.is_in_sweep_queue = true;
            self.sweep_queue
                .push_back((now.after(SWEEP_EVERY), fingerprint));
        }
    }

    /// Passes the entries that are due for a sweep to `visit`, and removes unneeded
    /// entries.
    pub(super) fn sweep(
        &mut self,
        now: Micros,
        mut visit: impl FnMut(&mut LeaseEntry, Fingerprint),
    ) {
        while let Some(fingerprint) = pop_due(&mut self.sweep_queue, now) {
            let Some(entry) = self.entries.get_mut(&fingerprint) else {
                continue;
            };
            entry.is_in_sweep_queue = false;
            visit(entry, fingerprint);
            self.queue_sweep(fingerprint, now);
            self.queue_removal(fingerprint, now);
        }

        while let Some(fingerprint) = pop_due(&mut self.removal_queue, now) {
            let Some(entry) = self.entries.get_mut(&fingerprint) else {
                continue;
            };
            entry.is_in_removal_queue = false;
            if entry.is_removable(now) {
                self.entries.remove(&fingerprint);
            } else {
                self.queue_removal(fingerprint, now);
            }
        }

        // Frees the memory of the map and the queues.
        if self.entries.is_empty() {
            *self = Self::default();
        }
    }
}

/// Removes and returns the first element of a queue if its time has come.
fn pop_due(queue: &mut VecDeque<(Micros, Fingerprint)>, now: Micros) -> Option<Fingerprint> {
    queue
        .pop_front_if(|(at, _)| *at <= now)
        .map(|(_, fingerprint)| fingerprint)
}
