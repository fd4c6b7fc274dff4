//! What a shard needs to decide a demand.

use super::hot_key::SplitPolicy;
use super::key_cap::KeyCap;
use super::slot::Slot;
use super::slot_quota::bucket_slot;
use crate::algorithm::{BucketState, PermitId, Quota};
use crate::key::{Fingerprint, KeyPrefix};
use crate::time::Micros;

/// What all shards of a store have in common.
#[derive(Debug)]
pub(super) struct ShardSettings {
    pub(super) key_cap: KeyCap,
    /// If set, a bucket that the store does not know was empty at this moment and has been
    /// refilling since, so that evicting a bucket that is full again changes nothing. Otherwise,
    /// and for other states than buckets, an unknown key has its whole quota.
    pub(super) empty_since: Option<Micros>,
    pub(super) split_policy: SplitPolicy,
}

impl ShardSettings {
    /// The slot that an unknown key starts with.
    pub(super) fn initial_slot(&self, quota: &Quota, fingerprint: Fingerprint) -> Option<Slot> {
        let (moment, gcra) = (self.empty_since?, quota.bucket()?);
        let at = moment.after(gcra.span);
        Some(bucket_slot(gcra, fingerprint, BucketState { at, part: 0 }))
    }
}

/// One demand and everything a shard needs to decide it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemandContext<'a> {
    /// Identifies the limit.
    pub(super) prefix: &'a KeyPrefix,
    pub(super) quota: &'a Quota,
    pub(super) cost: u64,
    pub(super) fingerprint: Fingerprint,
    pub(super) permit_id: PermitId,
    pub(super) now: Micros,
    pub(super) settings: &'a ShardSettings,
}

impl DemandContext<'_> {
    /// The same demand with another cost.
    pub(super) fn with_cost(&self, cost: u64) -> Self {
        Self { cost, ..*self }
    }
}
