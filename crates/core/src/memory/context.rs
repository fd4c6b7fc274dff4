//! One demand and everything that decides it.

use crate::algorithm::{PermitId, Quota};
use crate::demand::Demand;
use crate::key::Fingerprint;
use crate::limit::Rule;
use crate::store::Intent;
use crate::time::Micros;

/// One demand and everything that decides it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemandContext<'a> {
    pub(super) limit: &'a Rule,
    pub(super) quota: &'a Quota,
    pub(super) cost: u64,
    pub(super) intent: Intent,
    pub(super) fingerprint: Fingerprint,
    pub(super) permit_id: PermitId,
    pub(super) now: Micros,
}

impl<'a> DemandContext<'a> {
    #[inline(always)]
    pub(super) fn new(
        demand: &'a Demand<'_>,
        fingerprint: Fingerprint,
        intent: Intent,
        permit_id: PermitId,
        now: Micros,
    ) -> Self {
        Self {
            limit: demand.limit,
            quota: demand.quota(),
            cost: demand.cost,
            intent,
            fingerprint,
            permit_id,
            now,
        }
    }

    /// A demand of which nothing is charged yet.
    pub(super) fn peek(demand: &'a Demand<'_>, fingerprint: Fingerprint, now: Micros) -> Self {
        Self::new(demand, fingerprint, Intent::Peek, PermitId::NONE, now)
    }

    /// The same demand with another cost.
    pub(super) fn with_cost(&self, cost: u64) -> Self {
        Self { cost, ..*self }
    }

    /// The same demand, charged in another way.
    pub(super) fn with_intent(&self, intent: Intent) -> Self {
        Self { intent, ..*self }
    }

    /// True when the demand is on a concurrency limit.
    pub(super) const fn is_permit(&self) -> bool {
        matches!(self.quota, Quota::Concurrency(_))
    }
}
