//! What a shard keeps about its hot key under its lock.

use super::record::HotRecord;
use crate::algorithm::Quota;

/// What a shard knows under its lock of its hot key, or of the key that may become hot.
#[derive(Debug, Default)]
pub(in super::super) struct Heat {
    /// The low bits of the fingerprint of the key that last found the lock held.
    contended_low: u64,
    /// How often it did, without another key in between.
    pub(super) contentions: u32,
    /// How many splits there were; the number of the last one.
    pub(super) splits: u64,
    pub(super) split: Option<Box<Split>>,
}

/// A hot key that is split.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) quota: Quota,
    /// The record that is published.
    pub(super) record: HotRecord,
    /// How many units a stripe gets.
    pub(super) stripe_units: u64,
}

impl Heat {
    /// Counts that a key found the lock held, and returns how often it did.
    pub(super) fn count_contention(&mut self, low: u64) -> u32 {
        if self.contended_low != low {
            (self.contended_low, self.contentions) = (low, 0);
        }
        self.contentions = self.contentions.saturating_add(1);
        self.contentions
    }
}
