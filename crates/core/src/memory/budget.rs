//! The hard cap: how much all shards together may keep.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts what is kept, in keys. Touched only when something is added or dropped, never on a plain
/// hit.
#[derive(Debug)]
pub(super) struct Budget {
    used: AtomicUsize,
    max: usize,
}

impl Budget {
    pub(super) fn new(max: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            max,
        }
    }

    /// Takes `weight`, and says by how much the cap is now exceeded.
    pub(super) fn take(&self, weight: usize) -> usize {
        (self.used.fetch_add(weight, Relaxed) + weight).saturating_sub(self.max)
    }

    pub(super) fn give_back(&self, weight: usize) {
        self.used.fetch_sub(weight, Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
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
