//! An open-addressing table of slots, made for this store: any size (not only powers of two, which
//! would leave it half empty), dense, one neighbourhood of memory per look-up, no tombstones.

use super::fingerprint::Fingerprint;
use super::slot::Slot;

/// The fewest slots a table has once it has any.
const SLOTS_MIN: usize = 16;

/// Linear probing from a home position; deletion moves later slots back into the gap.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Box<[Slot]>,
    live: usize,
}

impl Table {
    pub(super) fn live(&self) -> usize {
        self.live
    }

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

    /// Where the slot with this fingerprint is. A table is never full, so the search ends.
    #[inline(always)]
    pub(super) fn find(&self, print: Fingerprint) -> Option<usize> {
        let home = self.home(print);
        let (before, from_home) = self.slots.split_at(home);
        for (offset, slot) in from_home.iter().enumerate() {
            if slot.holds(print) {
                return Some(home + offset);
            }
            if slot.is_vacant() {
                return None;
            }
        }
        let wrapped = before.iter().take_while(|slot| !slot.is_vacant());
        wrapped
            .enumerate()
            .find(|(_, slot)| slot.holds(print))
            .map(|(index, _)| index)
    }

    /// Part of what stands where the search for a fingerprint begins and where most searches have
    /// ended.
    #[inline(always)]
    pub(super) fn touch(&self, print: Fingerprint) -> u64 {
        let home = self.home(print);
        let low = |index: usize| self.slots.get(index).map_or(0, Slot::low);
        low(home) ^ low(home + 1)
    }

    /// True when one more slot would fill it over seven tenths.
    pub(super) fn is_crowded(&self) -> bool {
        (self.live + 1) * 10 > self.slots.len() * 7
    }

    /// True when it is so empty that a smaller one should take its place.
    pub(super) fn is_sparse(&self) -> bool {
        self.slots.len() > SLOTS_MIN && self.live * 4 < self.slots.len()
    }

    /// Adds a slot whose fingerprint is not there yet. The table must not be crowded.
    pub(super) fn insert(&mut self, slot: Slot) {
        let mut index = self.home(slot.print());
        while !self.slots[index].is_vacant() {
            index = self.after(index);
        }
        self.slots[index] = slot;
        self.live += 1;
    }

    /// Empties a position and closes the gap.
    pub(super) fn remove(&mut self, index: usize) {
        let mut gap = index;
        let mut next = self.after(gap);
        while !self.slots[next].is_vacant() {
            let home = self.home(self.slots[next].print());
            // A slot may move back only if that does not take it to before its home, going round.
            let stays = if gap <= next {
                gap < home && home <= next
            } else {
                gap < home || home <= next
            };
            if !stays {
                self.slots[gap] = self.slots[next];
                gap = next;
            }
            next = self.after(next);
        }
        self.slots[gap] = Slot::VACANT;
        self.live -= 1;
    }

    /// Makes a table anew with the slots that `keep` wants, sized so that it is five ninths full:
    /// 58 bytes a key, and 46 when it is crowded.
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

    /// Makes sure that one more slot has room.
    pub(super) fn reserve_one(&mut self) {
        if self.slots.is_empty() {
            self.slots = vec![Slot::VACANT; SLOTS_MIN].into();
        } else if self.is_crowded() {
            self.rebuild(|_| true);
        }
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the high half of the product is below the length"
    )]
    fn home(&self, print: Fingerprint) -> usize {
        ((u128::from(print.low) * self.slots.len() as u128) >> 64) as usize
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
