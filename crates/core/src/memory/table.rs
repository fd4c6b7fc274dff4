//! The slots of a shard: open addressing with linear probing, in memory that grows but never moves,
//! because threads without the lock may read it at any time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::limit_usage::LimitNumber;
use super::slot::{Slot, SlotEntry};
use crate::key::Fingerprint;

/// The base-two logarithm of the offset that is added to an index to find its segment. Half of it
/// is the size of the first segment.
const OFFSET_LOG2: u32 = 4;

/// The slots, in segments of 8, 8, 16, 16, 32, 32 and so on.
///
/// Reading needs no lock, and is only meaningful for a version of the shard. Every method that
/// changes slots needs the shard to be held.
#[derive(Debug)]
pub(super) struct Table {
    segments: Box<[OnceLock<Box<[Slot]>>]>,
    /// The number of slots in use: all those of the first segments.
    capacity: AtomicUsize,
    live: AtomicUsize,
}

impl Table {
    /// An empty table that can grow to at least this many slots.
    pub(super) fn new(slots_max: usize) -> Self {
        let (last, _) = position(slots_max.min(usize::MAX / 2));
        Self {
            segments: (0..=last).map(|_| OnceLock::new()).collect(),
            capacity: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
        }
    }

    /// The number of counters.
    pub(super) fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// The size of the table in bytes.
    pub(super) fn bytes(&self) -> usize {
        let segments = self.segments.iter().filter_map(OnceLock::get);
        let slots: usize = segments.map(|segment| size_of_val(&**segment)).sum();
        slots + size_of_val(&*self.segments)
    }

    /// The slot of a key. A reader without the lock may miss it while the table changes.
    #[inline(always)]
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<&Slot> {
        Some(self.search(fingerprint)?.1)
    }

    #[inline(always)]
    fn search(&self, fingerprint: Fingerprint) -> Option<(usize, &Slot)> {
        let capacity = self.capacity.load(Relaxed);
        let mut index = home(fingerprint, capacity);
        // Bounded, because a reader may see slots of several versions, none of them vacant.
        for _ in 0..capacity {
            let slot = self.get(index)?;
            if slot.holds(fingerprint) {
                return Some((index, slot));
            }
            if slot.is_vacant() {
                return None;
            }
            index = after(index, capacity);
        }
        None
    }

    /// The slot at `index`; `None` if a reader is ahead of the thread that adds it.
    #[inline(always)]
    fn get(&self, index: usize) -> Option<&Slot> {
        let (segment, offset) = position(index);
        self.segments.get(segment)?.get()?.get(offset)
    }

    fn slot(&self, index: usize) -> &Slot {
        let slot = self.get(index);
        slot.expect("the segments up to the capacity exist")
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        let segments = self.segments.iter().map_while(OnceLock::get);
        segments.flat_map(|segment| segment.iter())
    }

    /// The counters.
    pub(super) fn iter(&self) -> impl Iterator<Item = SlotEntry> {
        self.slots().filter_map(Slot::entry)
    }

    /// Replaces the state of a counter, or adds the counter.
    pub(super) fn put(&self, entry: SlotEntry) {
        if let Some(slot) = self.find(entry.fingerprint) {
            return slot.set_state(entry.state);
        }
        let live = self.live() + 1;
        if is_crowded(live, self.capacity.load(Relaxed)) {
            self.reserve(live);
        }
        self.insert(entry);
        self.live.store(live, Relaxed);
    }

    fn insert(&self, entry: SlotEntry) {
        let capacity = self.capacity.load(Relaxed);
        let mut index = home(entry.fingerprint, capacity);
        while !self.slot(index).is_vacant() {
            index = after(index, capacity);
        }
        self.slot(index).set(Some(entry));
    }

    /// Removes a counter, closes the gap, and returns the counter's limit.
    pub(super) fn remove(&self, fingerprint: Fingerprint) -> Option<LimitNumber> {
        let capacity = self.capacity.load(Relaxed);
        let (mut gap, slot) = self.search(fingerprint)?;
        let limit = slot.entry()?.limit;

        let mut next = after(gap, capacity);
        while let Some(entry) = self.slot(next).entry() {
            let home = home(entry.fingerprint, capacity);
            // A slot must not move to before its home, where the table wraps around.
            let must_stay = if gap <= next {
                gap < home && home <= next
            } else {
                gap < home || home <= next
            };
            if !must_stay {
                self.slot(gap).set(Some(entry));
                gap = next;
            }
            next = after(next, capacity);
        }
        self.slot(gap).set(None);
        self.live.store(self.live() - 1, Relaxed);
        Some(limit)
    }

    /// Adds segments until the table has room for this many counters. All of them then have a new
    /// home.
    pub(super) fn reserve(&self, keys: usize) {
        let entries: Vec<SlotEntry> = self.iter().collect();
        let mut capacity = self.capacity.load(Relaxed);
        let mut segments = position(capacity).0;
        while is_crowded(keys, capacity) && segments < self.segments.len() {
            let size = segment_size(segments);
            self.segments[segments].get_or_init(|| (0..size).map(|_| Slot::default()).collect());
            capacity += size;
            segments += 1;
        }

        self.slots().for_each(|slot| slot.set(None));
        self.capacity.store(capacity, Relaxed);
        entries.into_iter().for_each(|entry| self.insert(entry));
    }
}

/// True when a table of this capacity is too small for this many counters: when they would fill
/// more than three quarters of it.
const fn is_crowded(keys: usize, capacity: usize) -> bool {
    keys * 4 > capacity * 3
}

/// The segment of an index, and the index within it.
#[inline(always)]
const fn position(index: usize) -> (usize, usize) {
    let index = index + (1 << OFFSET_LOG2);
    // The two highest bits are 10 in the first of two segments of the same size, and 11 in the
    // other.
    let size_log2 = index.ilog2() - 1;
    let highest = index >> size_log2;
    let segment = 2 * (size_log2 + 1 - OFFSET_LOG2) as usize + highest - 2;
    (segment, index - (highest << size_log2))
}

/// The number of slots of a segment.
const fn segment_size(segment: usize) -> usize {
    1 << (segment / 2 + OFFSET_LOG2 as usize - 1)
}

/// The index at which the search for a fingerprint begins.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the high half of the product is below the capacity"
)]
const fn home(fingerprint: Fingerprint, capacity: usize) -> usize {
    ((fingerprint.low as u128 * capacity as u128) >> 64) as usize
}

#[inline(always)]
const fn after(index: usize, capacity: usize) -> usize {
    if index + 1 == capacity { 0 } else { index + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for index in 0..100_000 {
            assert_eq!(position(index), expected);
            expected.1 += 1;
            if expected.1 == segment_size(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
    }
}
