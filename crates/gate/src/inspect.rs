//! Inspections: peeks that also tell what the counters contain.

use tollgate::limiter::Inspection;
use tollgate::store::Intent;
use tollgate::{Demand, EncodedKey};
use tollgate_http::CounterBody;

use super::actions::AppliedRequest;
use super::active::{ActiveConfig, DecideError};
use super::decide::GateDecision;
use crate::trace;

impl ActiveConfig {
    /// Inspects the counters of these demands.
    pub async fn inspect(
        &self,
        demands: &[Demand<'_, EncodedKey>],
    ) -> Result<GateDecision, DecideError> {
        let Some(table) = self.actions.touching(demands) else {
            return self.inspect_asked(demands).await;
        };

        let applied = AppliedRequest::new(&table, demands, Intent::Inspect, self.now());
        let asked = self.inspect_asked(&applied.asked()).await?;
        Ok(GateDecision {
            decision: applied.decision(Some(&asked.decision)),
            block: applied.block_status(),
            ..asked
        })
    }

    /// Inspects the counters of demands on which there is no action.
    async fn inspect_asked(
        &self,
        demands: &[Demand<'_, EncodedKey>],
    ) -> Result<GateDecision, DecideError> {
        let request = self.limiter.request(demands, Intent::Peek);
        let Inspection { decision, counters } = request.inspect().await?;
        trace::record_decision(&decision);

        let counters = demands.iter().zip(&counters).map(|(demand, view)| {
            let mut body = CounterBody::new(demand.quota(), view);
            body.tier = self.tier(demand).map(str::to_owned);
            body
        });
        Ok(GateDecision {
            counters: counters.collect(),
            ..decision.into()
        })
    }

    /// The tier whose quota a demand has: of several with the same numbers, the first. `None` if
    /// the limit has no tiers.
    fn tier(&self, demand: &Demand<'_, EncodedKey>) -> Option<&str> {
        let limit = self.config.limits.get(demand.limit.position())?;
        let tiers = limit.tiers.as_ref()?;
        let Some(quota) = demand.quota else {
            return Some(&tiers.default);
        };
        let mut others = tiers.quotas.iter();
        let found = others.find(|(name, other)| **other == quota && **name != tiers.default);
        found.map(|(name, _)| &**name)
    }
}
