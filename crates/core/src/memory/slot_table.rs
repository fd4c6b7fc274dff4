//! An open-addressing hash table of slots, made for this store. It can have any size, whereas
//! powers of two alone would leave it half empty. A lookup reads one neighbourhood of memory, and
//! a removal leaves no tombstones.

use super::slot::Slot;
use crate::key::Fingerprint;

/// The fewest slots of a table that is not empty.
const SLOTS_MIN: usize = 16;

/// A table with linear probing from a home position. A removal moves later slots back into the gap.
#[derive(Debug, Default)]
pub(super) struct SlotTable {
    slots: Box<[Slot]>,
    live: usize,
}

impl SlotTable {
    /// The number of counters.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// The number of slots, vacant ones included.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| !slot.is_vacant())
    }

    pub(super) fn get(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    pub(super) fn set(&mut self, index: usize, slot: Slot) {
        self.slots[index] = slot;
    }

    /// The index of the slot with this fingerprint. A table always has vacant slots, so the search
    /// ends.
    #[inline(always)]
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<usize> {
        let home = self.home(fingerprint);
        let (before, from_home) = self.slots.split_at(home);
        for (offset, slot) in from_home.iter().enumerate() {
            if slot.holds(fingerprint) {
                return Some(home + offset);
            }
            if slot.is_vacant() {
                return None;
            }
        }

        let wrapped = before.iter().take_while(|slot| !slot.is_vacant());
        wrapped
            .enumerate()
            .find(|(_, slot)| slot.holds(fingerprint))
            .map(|(index, _)| index)
    }

    /// Reads the two slots where the search for a fingerprint begins, which is where most searches
    /// end too. The returned value only keeps the compiler from removing the reads.
    #[inline(always)]
    pub(super) fn touch(&self, fingerprint: Fingerprint) -> u64 {
        let home = self.home(fingerprint);
        let low = |index: usize| self.slots.get(index).map_or(0, Slot::low);
        low(home) ^ low(home + 1)
    }

    /// Returns true when one more slot would fill the table to more than seven tenths.
    pub(super) fn is_crowded(&self) -> bool {
        (self.live + 1) * 10 > self.slots.len() * 7
    }

    /// Returns true when the table is so empty that a smaller one should replace it.
    pub(super) fn is_sparse(&self) -> bool {
        self.slots.len() > SLOTS_MIN && self.live * 4 < self.slots.len()
    }

    /// Adds a slot whose fingerprint is not in the table. The table must not be crowded.
    pub(super) fn insert(&mut self, slot: Slot) {
        let mut index = self.home(slot.fingerprint());
        while !self.slots[index].is_vacant() {
            index = self.after(index);
        }
        self.slots[index] = slot;
        self.live += 1;
    }

    /// Removes the slot at `index` and closes the gap.
    pub(super) fn remove(&mut self, index: usize) {
        let mut gap = index;
        let mut next = self.after(gap);
        while !self.slots[next].is_vacant() {
            let home = self.home(self.slots[next].fingerprint());
            // A slot must not move to before its home, where the table wraps around.
            let must_stay = if gap <= next {
                gap < home && home <= next
            } else {
                gap < home || home <= next
            };
            if !must_stay {
                self.slots[gap] = self.slots[next];
                gap = next;
            }
            next = self.after(next);
        }

        self.slots[gap] = Slot::VACANT;
        self.live -= 1;
    }

    /// Replaces the table by one with the slots for which `keep` returns true. The new table is
    /// five ninths full: 58 bytes per key, and 46 when it is crowded.
    pub(super) fn rebuild(&mut self, keep: impl FnMut(&&Slot) -> bool) {
        let kept: Vec<Slot> = self.iter().filter(keep).copied().collect();
        let size = if kept.is_empty() {
            0
        } else {
            (kept.len() * 9).div_ceil(5).max(SLOTS_MIN)
        };

        self.slots = vec![Slot::VACANT; size].into();
        self.live = 0;
        for slot in kept {
            self.insert(slot);
        }
    }

    /// Makes room for one more slot.
    pub(super) fn reserve_one(&mut self) {
        if self.slots.is_empty() {
            self.slots = vec![Slot::VACANT; SLOTS_MIN].into();
        } else if self.is_crowded() {
            self.rebuild(|_| true);
        }
    }

    /// The index at which the search for a fingerprint begins.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the high half of the product is below the length"
    )]
    fn home(&self, fingerprint: Fingerprint) -> usize {
        ((u128::from(fingerprint.low) * self.slots.len() as u128) >> 64) as usize
    }

    #[inline]
    fn after(&self, index: usize) -> usize {
        if index + 1 == self.slots.len() {
            0
        } else {
            index + 1
        }
    }
}
