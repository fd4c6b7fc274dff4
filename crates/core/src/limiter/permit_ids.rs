//! Names for leases that no two replicas share and nobody can guess.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::algorithm::PermitId;

/// A count, seen through two keyed hashes (SipHash) with secrets from the operating system.
#[derive(Debug, Default)]
pub(super) struct PermitIds {
    next: AtomicU64,
    high: RandomState,
    low: RandomState,
}

impl PermitIds {
    pub(super) fn next(&self) -> PermitId {
        let count = self.next.fetch_add(1, Relaxed);
        let half = |secret: &RandomState| u128::from(secret.hash_one(count));
        PermitId::new(half(&self.high) << 64 | half(&self.low))
    }
}
