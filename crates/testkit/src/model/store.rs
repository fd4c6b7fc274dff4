//! Many counters, with requests that spend from all of their counters or from none.

use std::collections::HashMap;

use tollgate::store::{Ending, Intent, ReservationEnd, Settlement, SettlementKind, SpendReply};
use tollgate::{Demand, Key, Micros, Outcome, PermitId, ReservationExpiry};

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
        let asked = intent;
        let intent = self.update(demands, intent, now);
        self.count_denials(demands, asked, now);

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

        let (is_inspection, asked) = (intent == Intent::Inspect, intent);
        let intent = self.update(demands, intent, spent.at);
        self.count_denials(demands, asked, spent.at);

        for (index, ((demand, model), (outcome, _))) in
            self.updated(demands).zip(spent.outcomes()).enumerate()
        {
            let compared = model.confirm(outcome, demand.cost, spent.at, intent);
            compared.map_err(|difference| format!("demand {index}: {difference}"))?;
        }
        if is_inspection {
            self.confirm_views(demands, spent)?;
        }

        self.settle(demands, intent, permit_id, spent.at);
        Ok(())
    }

    /// Compares what a store says of its counters with what they must contain.
    fn confirm_views(&self, demands: &[Demand<'_>], spent: &SpendReply) -> Result<(), String> {
        let views = &spent.counters;
        if views.len() != demands.len() {
            return Err(format!(
                "{} views for {} demands",
                views.len(),
                demands.len()
            ));
        }
        for (index, ((_, model), view)) in self.updated(demands).zip(views).enumerate() {
            let compared = model.confirm_view(view, spent.at);
            compared.map_err(|difference| format!("demand {index}: {difference}"))?;
        }
        Ok(())
    }

    /// Refunds the cost of these demands.
    pub fn refund(&mut self, demands: &[Demand<'_>], now: Micros) {
        for demand in demands {
            if let Some(model) = self.counters.get_mut(&demand.key.to_bytes()) {
                model.set_quota(*demand.quota());
                release_expired(model, demand, false, now);
                model.refund(demand.cost, now);
            }
        }
    }

    /// Ends a reservation at all of its counters: as the first of them that has no permits
    /// remembers.
    pub fn settle_reservation(
        &mut self,
        settlements: &[Settlement<'_>],
        ending: Ending,
        now: Micros,
    ) -> Vec<(SettlementKind, ReservationEnd)> {
        let mut first: Option<(SettlementKind, ReservationEnd)> = None;
        let mut settled = Vec::new();
        for settlement in settlements {
            let demand = &settlement.demand;
            let is_permit = demand.is_permit();
            if let Some(decided) = first.filter(|(_, end)| *end != ending.end && !is_permit) {
                settled.push(decided);
                continue;
            }

            let was_open = first.is_some_and(|(kind, _)| kind != SettlementKind::Unreserved);
            let is_released = demand.limit.on_reservation_expiry() == ReservationExpiry::Release;
            let costs = (settlement.actual, settlement.late);
            let ending = Ending { was_open, ..ending };
            let reply = self.model(demand).settle(costs, ending, is_released, now);
            if !is_permit {
                first.get_or_insert(reply);
            }
            settled.push(reply);
        }
        settled
    }

    /// The counter of a demand, with its quota.
    fn model(&mut self, demand: &Demand<'_>) -> &mut Model {
        let quota = *demand.quota();
        let counter = self.counters.entry(demand.key.to_bytes());
        let model = counter.or_insert_with(|| Model::new(quota));
        model.set_quota(quota);
        model.debt_max = demand.limit.debt_max(demand.quota());
        model.lockout = demand.limit.lockout().copied();
        model
    }

    /// Resets a counter.
    pub fn reset(&mut self, key: &Key<'_>) {
        if let Some(model) = self.counters.get_mut(&key.to_bytes()) {
            model.reset();
        }
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
            let model = self.model(demand);
            model.update(now);
            model.update_lockout(now);
            let is_final = intent.is_reserve() || intent == Intent::Inspect;
            release_expired(model, demand, is_final, now);
        }
        if intent == Intent::Count {
            return intent;
        }

        let passes = self
            .updated(demands)
            .all(|(demand, model)| demand.limit.is_shadow() || model.passes(demand.cost, now));
        if passes { intent } else { Intent::Peek }
    }

    /// Counts the denials of a request, each by the limit itself, towards lockouts.
    fn count_denials(&mut self, demands: &[Demand<'_>], intent: Intent, now: Micros) {
        for demand in demands.iter().filter(|_| intent.counts_denials()) {
            self.model(demand).count_denial(demand.cost, now);
        }
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

/// Gives back what expired reservations have charged, if the limit says so. `is_final` forgets them
/// in any case.
fn release_expired(model: &mut Model, demand: &Demand<'_>, is_final: bool, now: Micros) {
    let is_released = demand.limit.on_reservation_expiry() == ReservationExpiry::Release;
    if is_released || is_final {
        model.end_expired(is_released, now);
    }
}
