//! Refunds, resets and releases: what is taken back of charges.

use tollgate::store::Intent;
use tollgate::{Demand, EncodedKey, Quota};
use tollgate_rules::Selection;

use super::actions::AppliedRequest;
use super::active::{ActiveConfig, DecideError};
use super::gate::Gate;
use super::permit::PermitToken;

impl Gate {
    /// Releases a permit. Returns false if it was already released or had timed out.
    pub async fn release(&self, permit: &PermitToken) -> Result<bool, DecideError> {
        let active = self.active();

        let mut was_held = false;
        for counter in &permit.counters {
            let rule = active.rule_from_text(&counter.limit)?;
            let limit = active.limiter.with_rule(&rule);
            was_held |= limit.release(&counter.key, permit.id).await?;
        }
        Ok(was_held)
    }
}

impl ActiveConfig {
    /// Refunds what a check has charged. Concurrency limits are left out, because their permits are
    /// released with the permit token, and exempt keys, which were not charged.
    pub async fn refund(&self, demands: &[Demand<'_, EncodedKey>]) -> Result<(), DecideError> {
        let table = self.actions.touching(demands);
        let charged = table.as_deref().map(|table| {
            let applied = AppliedRequest::new(table, demands, Intent::Spend, self.now());
            applied.charged()
        });
        let demands = charged.as_deref().unwrap_or(demands);

        let is_rate =
            |demand: &&Demand<'_, EncodedKey>| !matches!(demand.quota(), Quota::Concurrency(_));
        let demands: Selection<'_> = demands.iter().filter(is_rate).cloned().collect();
        Ok(self.limiter.refund_request(&demands).await?)
    }

    /// Resets what a key has used of a limit.
    pub async fn reset(&self, demand: &Demand<'_, EncodedKey>) -> Result<(), DecideError> {
        let limit = self.limiter.with_rule(demand.limit);
        Ok(limit.reset(&demand.key).await?)
    }
}
