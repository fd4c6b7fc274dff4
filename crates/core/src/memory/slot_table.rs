//! An open-addressing hash table of slots, made for this store. It can have any size, whereas
//! powers of two alone would leave it half empty. A lookup reads one neighbourhood of memory, and
//! a removal leaves no tombstones.

use super::limit_usage::LimitNumber;
use super::slot::Slot;
use crate::key::Fingerprint;

/// The fewest slots of a table that is not empty.
const SLOTS_MIN: usize = 16;

/// A table with linear probing from a home position. A removal moves later slots back into the gap.
#[derive(Debug, Default)]
pub(super) struct SlotTable {
    slots: Box<[Slot]>,
    /// The limit of each slot, next to the table so that a lookup does not read it.
    limits: Box<[LimitNumber]>,
    live: usize,
}

impl SlotTable {
    /// The number of counters.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// The size of the table in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.limits)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| !slot.is_vacant())
    }

    /// The counters, each with its limit.
    pub(super) fn iter_with_limits(&self) -> impl Iterator<Item = (&Slot, LimitNumber)> {
        let pairs = self.slots.iter().zip(self.limits.iter().copied());
        pairs.filter(|(slot, _)| !slot.is_vacant())
    }

    /// The counters of one limit, each with its index.
    pub(super) fn iter_limit(&self, limit: LimitNumber) -> impl Iterator<Item = (usize, &Slot)> {
        let slots = self.limits.iter().zip(&self.slots).enumerate();
        slots
            .filter(move |(_, (other, slot))| **other == limit && !slot.is_vacant())
            .map(|(index, (_, slot))| (index, slot))
    }

    pub(super) fn get(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
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
    fn is_crowded(&self) -> bool {
        (self.live + 1) * 10 > self.slots.len() * 7
    }

    /// Returns true when the table is so empty that a smaller one should replace it.
    pub(super) fn is_sparse(&self) -> bool {
        self.slots.len() > SLOTS_MIN && self.live * 4 < self.slots.len()
    }

    /// Returns true when less than half of the table is in use.
    pub(super) fn is_half_empty(&self) -> bool {
        self.slots.len() > (2 * self.live).max(SLOTS_MIN)
    }

    /// Adds a slot whose fingerprint is not in the table, and returns its index.
    pub(super) fn insert(&mut self, slot: Slot, limit: LimitNumber) -> usize {
        if self.is_crowded() {
            self.resize();
        }
        self.insert_uncrowded(slot, limit)
    }

    fn insert_uncrowded(&mut self, slot: Slot, limit: LimitNumber) -> usize {
        let mut index = self.home(slot.fingerprint());
        while !self.slots[index].is_vacant() {
            index = self.after(index);
        }

        self.slots[index] = slot;
        self.limits[index] = limit;
        self.live += 1;
        index
    }

    /// Removes the slot at `index`, closes the gap and returns the slot's limit.
    pub(super) fn remove(&mut self, index: usize) -> LimitNumber {
        let limit = self.limits[index];
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
                self.limits[gap] = self.limits[next];
                gap = next;
            }
            next = self.after(next);
        }

        self.slots[gap] = Slot::VACANT;
        self.live -= 1;
        limit
    }

    /// Replaces the table by one that is four sevenths full: 58 bytes per key, and 47 when it is
    /// crowded.
    pub(super) fn resize(&mut self) {
        self.resize_for(match self.live {
            0 if self.slots.is_empty() => 1,
            live => live,
        });
    }

    /// The same for this number of keys, at least those it has.
    pub(super) fn resize_for(&mut self, keys: usize) {
        let size = match keys.max(self.live) {
            0 => 0,
            keys => (keys * 7).div_ceil(4).max(SLOTS_MIN),
        };

        let resized = Self {
            slots: vec![Slot::VACANT; size].into(),
            limits: vec![LimitNumber::OTHERS; size].into(),
            live: 0,
        };
        let crowded = std::mem::replace(self, resized);
        for (slot, limit) in crowded.iter_with_limits() {
            self.insert_uncrowded(*slot, limit);
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
