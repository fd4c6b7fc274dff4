//! The hard cap on the memory of all shards together.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The memory that the store uses and may use, in keys. The use changes only when something is
/// added or dropped, never when a known key with a state of fixed size is checked.
#[derive(Debug)]
pub(super) struct KeyCap {
    used: AtomicUsize,
    max: usize,
}

impl KeyCap {
    pub(super) fn new(max: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            max,
        }
    }

    /// Charges `weight` keys and returns by how many keys the cap is now exceeded.
    pub(super) fn charge(&self, weight: usize) -> usize {
        (self.used.fetch_add(weight, Relaxed) + weight).saturating_sub(self.max)
    }

    /// Returns `weight` keys that were charged before.
    pub(super) fn release(&self, weight: usize) {
        self.used.fetch_sub(weight, Relaxed);
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.used.load(Relaxed) > self.max
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    pub(super) const fn max(&self) -> usize {
        self.max
    }
}
