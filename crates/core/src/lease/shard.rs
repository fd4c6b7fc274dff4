//! A part of the counters, behind one lock, and the queues of those to look after.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::entry::Entry;
use super::pace::{FORGET, KEYS_MAX, SWEEP_EVERY};
use super::table::SHARDS;
use crate::memory::fingerprint::Fingerprint;
use crate::store::Demand;
use crate::time::Micros;

#[derive(Default)]
pub(super) struct Shard {
    pub(super) entries: HashMap<Fingerprint, Entry, BuildHasherDefault<AsItIs>>,
    /// When to look at entries that hold something, in the order of time.
    soon: VecDeque<(Micros, Fingerprint)>,
    /// The same for those that may be forgotten.
    later: VecDeque<(Micros, Fingerprint)>,
}

/// Fingerprints are hashes already.
#[derive(Default)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
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

impl Shard {
    /// The entry of this counter, a new one if there is room for it.
    pub(super) fn entry(
        &mut self,
        print: Fingerprint,
        check: &Demand<'_>,
        now: Micros,
    ) -> Option<&mut Entry> {
        let mut entry = match self.entries.get(&print) {
            Some(entry) if entry.goes_by(check.quota) => return self.entries.get_mut(&print),
            // Its trip is about other numbers.
            Some(entry) if entry.is_in_flight() => return None,
            None if self.entries.len() >= KEYS_MAX / SHARDS => return None,
            _ => Entry::new(check, now),
        };
        if let Some(old) = self.entries.get(&print) {
            entry.replaces(old);
            (entry.is_filed, entry.is_watched) = (old.is_filed, old.is_watched);
        }
        self.entries.insert(print, entry);
        self.file(print, now);
        self.entries.get_mut(&print)
    }

    /// Has an entry looked at when it may be forgotten, unless it is in that queue already.
    fn file(&mut self, print: Fingerprint, now: Micros) {
        if let Some(entry) = self.entries.get_mut(&print).filter(|entry| !entry.is_filed) {
            entry.is_filed = true;
            self.later.push_back((now.after(FORGET), print));
        }
    }

    /// Has an entry that holds something looked after, unless it is already.
    #[inline]
    pub(super) fn watch(&mut self, print: Fingerprint, now: Micros) {
        if let Some(entry) = self
            .entries
            .get_mut(&print)
            .filter(|entry| entry.is_unwatched())
        {
            entry.is_watched = true;
            self.soon.push_back((now.after(SWEEP_EVERY), print));
        }
    }

    /// Looks at the entries whose time has come, and forgets those that say nothing.
    pub(super) fn due(&mut self, now: Micros, mut look: impl FnMut(&mut Entry, Fingerprint)) {
        while let Some(print) = next(&mut self.soon, now) {
            let Some(entry) = self.entries.get_mut(&print) else {
                continue;
            };
            entry.is_watched = false;
            look(entry, print);
            self.watch(print, now);
            self.file(print, now);
        }
        while let Some(print) = next(&mut self.later, now) {
            let Some(entry) = self.entries.get_mut(&print) else {
                continue;
            };
            entry.is_filed = false;
            if entry.is_worthless(now) {
                self.entries.remove(&print);
            } else {
                self.file(print, now);
            }
        }
        if self.entries.is_empty() {
            *self = Self::default();
        }
    }
}

/// The first of a queue, once its time has come.
fn next(queue: &mut VecDeque<(Micros, Fingerprint)>, now: Micros) -> Option<Fingerprint> {
    queue
        .pop_front_if(|(at, _)| *at <= now)
        .map(|(_, print)| print)
}
