//! The states that do not fit into a slot because they grow with use: the hits of logs and the
//! permits of concurrency limits.

use super::key_cap::KeyCap;
use crate::algorithm::{HitLog, Permits};

/// A state of variable size.
#[derive(Debug)]
pub(super) struct SideEntry {
    pub(super) state: SideState,
    /// What the entry has charged to the store's cap, in keys.
    charged: usize,
}

/// A state that does not fit into a slot.
#[derive(Debug)]
pub(super) enum SideState {
    Log(HitLog),
    Permits(Permits),
}

impl SideEntry {
    pub(super) const fn new(state: SideState) -> Self {
        Self { state, charged: 0 }
    }

    /// Updates the charge to the present size. Returns by how many keys the store now exceeds its
    /// cap.
    pub(super) fn update_charge(&mut self, key_cap: &KeyCap) -> usize {
        // A key takes about 60 bytes, a hit 16 and a permit 48.
        let weight = match &self.state {
            SideState::Log(log) => log.hits().len().div_ceil(4),
            SideState::Permits(permits) => permits.entries().len(),
        };

        let charged = std::mem::replace(&mut self.charged, weight);
        if weight > charged {
            return key_cap.charge(weight - charged);
        }
        key_cap.release(charged - weight);
        0
    }
}

/// A slab of entries: an index stays valid until its entry is removed, and is then reused.
#[derive(Debug, Default)]
pub(super) struct SideTable {
    entries: Vec<Option<SideEntry>>,
    free: Vec<u32>,
}

impl SideTable {
    pub(super) fn get(&self, index: u32) -> Option<&SideEntry> {
        self.entries.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut SideEntry> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn insert(&mut self, state: SideState) -> u32 {
        let entry = Some(SideEntry::new(state));
        if let Some(index) = self.free.pop() {
            self.entries[index as usize] = entry;
            return index;
        }
        self.entries.push(entry);
        u32::try_from(self.entries.len() - 1).expect("a shard holds far fewer than 2^32 keys")
    }

    /// Removes an entry and returns what it had charged to the cap. Frees the memory of the
    /// table with its last entry.
    pub(super) fn remove(&mut self, index: u32) -> usize {
        let slot = self.entries.get_mut(index as usize);
        let Some(entry) = slot.and_then(Option::take) else {
            return 0;
        };

        self.free.push(index);
        if self.free.len() == self.entries.len() {
            *self = Self::default();
        }
        entry.charged
    }
}
