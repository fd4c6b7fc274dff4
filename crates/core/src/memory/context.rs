//! What a shard needs to decide a demand.

use std::sync::atomic::AtomicUsize;

use super::hot_key::SplitPolicy;
use super::key_cap::KeyCap;
use crate::algorithm::{PermitId, Quota};
use crate::key::Fingerprint;
use crate::limit::Rule;
use crate::store::Intent;
use crate::time::Micros;

/// What all shards of a store have in common.
#[derive(Debug)]
pub(super) struct ShardSettings {
    pub(super) key_cap: KeyCap,
    pub(super) split_policy: SplitPolicy,
    /// How many reservations are open or remembered.
    pub(super) reservations: AtomicUsize,
}

/// One demand and everything a shard needs to decide it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemandContext<'a> {
    pub(super) limit: &'a Rule,
    pub(super) quota: &'a Quota,
    pub(super) cost: u64,
    pub(super) intent: Intent,
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

    /// The same demand, charged in another way.
    pub(super) fn with_intent(&self, intent: Intent) -> Self {
        Self { intent, ..*self }
    }
}
