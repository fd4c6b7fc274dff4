//! Permit ids that are unique among all replicas and cannot be guessed.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::algorithm::PermitId;

/// Generates permit ids: a counter, hashed with two keyed hashes (SipHash) whose keys come from the
/// operating system.
#[derive(Debug, Default)]
pub(super) struct PermitIds {
    next: AtomicU64,
    high: RandomState,
    low: RandomState,
}

impl PermitIds {
    pub(super) fn next(&self) -> PermitId {
        let count = self.next.fetch_add(1, Relaxed);
        let half = |hasher: &RandomState| u128::from(hasher.hash_one(count));
        PermitId::new(half(&self.high) << 64 | half(&self.low))
    }
}
