//! Many counters, with requests that spend from all of their counters or from none.

use std::collections::HashMap;

use tollgate::store::{Intent, SpendReply};
use tollgate::{Demand, Key, Micros, Outcome, PermitId};

use super::Model;

/// The model of a store, with one model counter per key. A key that was never spent from has no
/// counter.
#[derive(Clone, Debug, Default)]
pub struct ModelStore {
    /// Counters by the key's canonical bytes.
    counters: HashMap<Vec<u8>, Model>,
}

impl ModelStore {
    /// The outcomes that a request must have at `now`; spends it if it is allowed.
    pub fn spend(
        &mut self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
        now: Micros,
    ) -> Vec<Outcome> {
        let intent = self.update(demands, intent, now);

        let outcomes = self
            .updated(demands)
            .map(|(demand, model)| model.ask(demand.cost, now, intent))
            .collect();

        self.settle(demands, intent, permit_id, now);
        outcomes
    }

    /// Compares a store's outcomes with the expected ones, then spends the request if it is
    /// allowed.
    pub fn confirm(
        &mut self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
        spent: &SpendReply,
    ) -> Result<(), String> {
        if spent.outcomes().len() != demands.len() {
            return Err(format!(
                "{} outcomes for {} demands",
                spent.outcomes().len(),
                demands.len()
            ));
        }

        let intent = self.update(demands, intent, spent.at);

        for (index, ((demand, model), (outcome, _))) in
            self.updated(demands).zip(spent.outcomes()).enumerate()
        {
            let compared = model.confirm(outcome, demand.cost, spent.at, intent);
            compared.map_err(|difference| format!("demand {index}: {difference}"))?;
        }

        self.settle(demands, intent, permit_id, spent.at);
        Ok(())
    }

    /// Refunds the cost of these demands.
    pub fn refund(&mut self, demands: &[Demand<'_>], now: Micros) {
        for demand in demands {
            if let Some(model) = self.counters.get_mut(&demand.key.to_bytes()) {
                model.set_quota(*demand.quota());
                model.refund(demand.cost, now);
            }
        }
    }

    /// Resets a counter.
    pub fn reset(&mut self, key: &Key<'_>) {
        self.counters.remove(&key.to_bytes());
    }

    /// Releases a permit; false if it has already ended.
    pub fn release(&mut self, demand: &Demand<'_>, permit_id: PermitId, now: Micros) -> bool {
        self.counters
            .get_mut(&demand.key.to_bytes())
            .is_some_and(|model| {
                model.set_quota(*demand.quota());
                model.release(permit_id, now)
            })
    }

    /// Restarts a permit's timeout; false if it has already ended.
    pub fn renew(&mut self, demand: &Demand<'_>, permit_id: PermitId, now: Micros) -> bool {
        self.counters
            .get_mut(&demand.key.to_bytes())
            .is_some_and(|model| {
                model.set_quota(*demand.quota());
                model.renew(permit_id, now)
            })
    }

    /// Updates every counter to the time `now`, and returns the effective intent: a request that is
    /// denied only peeks.
    fn update(&mut self, demands: &[Demand<'_>], intent: Intent, now: Micros) -> Intent {
        for demand in demands {
            let model = self
                .counters
                .entry(demand.key.to_bytes())
                .or_insert_with(|| Model::new(*demand.quota()));
            model.set_quota(*demand.quota());
            model.update(now);
        }

        let passes = self
            .updated(demands)
            .all(|(demand, model)| demand.limit.is_shadow() || model.passes(demand.cost, now));
        if passes { intent } else { Intent::Peek }
    }

    /// The counters of demands that have been updated.
    fn updated<'a>(
        &'a self,
        demands: &'a [Demand<'a>],
    ) -> impl Iterator<Item = (&'a Demand<'a>, &'a Model)> {
        demands
            .iter()
            .map(|demand| (demand, &self.counters[&demand.key.to_bytes()]))
    }

    /// Spends every demand that fits, unless the request only peeks.
    fn settle(&mut self, demands: &[Demand<'_>], intent: Intent, permit_id: PermitId, now: Micros) {
        for demand in demands {
            let model = self
                .counters
                .get_mut(&demand.key.to_bytes())
                .expect("the counter of every demand was updated");
            *model = model.after(demand.cost, now, intent, permit_id);
        }
    }
}
