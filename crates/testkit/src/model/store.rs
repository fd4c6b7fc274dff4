//! Many counters, and requests that spend several of them together or none.

use std::collections::HashMap;

use tollgate::store::{Intent, SpendReply};
use tollgate::{Demand, Key, Micros, Outcome, PermitId};

use super::Model;

/// What a store must do, one obvious counter per key. A key that was never spent from has no
/// counter.
#[derive(Clone, Debug, Default)]
pub struct ModelStore {
    /// By the key's canonical bytes.
    counters: HashMap<Vec<u8>, Model>,
}

impl ModelStore {
    /// What a request must be answered at `now`; spends it if it passes.
    pub fn spend(
        &mut self,
        checks: &[Demand<'_>],
        intent: Intent,
        lease: PermitId,
        now: Micros,
    ) -> Vec<Outcome> {
        let intent = self.see(checks, intent, now);
        let outcomes = self
            .seen(checks)
            .map(|(check, model)| model.ask(check.cost, now, intent))
            .collect();
        self.settle(checks, intent, lease, now);
        outcomes
    }

    /// Compares a store's answer to a request with what it must be, then spends it if it passes.
    pub fn confirm(
        &mut self,
        checks: &[Demand<'_>],
        intent: Intent,
        lease: PermitId,
        spent: &SpendReply,
    ) -> Result<(), String> {
        if spent.outcomes.len() != checks.len() {
            return Err(format!(
                "{} outcomes for {} checks",
                spent.outcomes.len(),
                checks.len()
            ));
        }
        let intent = self.see(checks, intent, spent.at);
        for (index, ((check, model), outcome)) in self.seen(checks).zip(&spent.outcomes).enumerate()
        {
            let compared = model.confirm(outcome, check.cost, spent.at, intent);
            compared.map_err(|difference| format!("check {index}: {difference}"))?;
        }
        self.settle(checks, intent, lease, spent.at);
        Ok(())
    }

    /// Gives back what checks took.
    pub fn refund(&mut self, checks: &[Demand<'_>], now: Micros) {
        for check in checks {
            if let Some(model) = self.counters.get_mut(&check.key.to_bytes()) {
                model.set_quota(*check.quota);
                model.refund(check.cost, now);
            }
        }
    }

    /// Forgets a counter.
    pub fn reset(&mut self, key: &Key<'_>) {
        self.counters.remove(&key.to_bytes());
    }

    /// Ends a lease; false when it has already ended.
    pub fn release(&mut self, check: &Demand<'_>, lease: PermitId, now: Micros) -> bool {
        self.counters
            .get_mut(&check.key.to_bytes())
            .is_some_and(|model| {
                model.set_quota(*check.quota);
                model.release(lease, now)
            })
    }

    /// Starts a lease's time again; false when it has already ended.
    pub fn renew(&mut self, check: &Demand<'_>, lease: PermitId, now: Micros) -> bool {
        self.counters
            .get_mut(&check.key.to_bytes())
            .is_some_and(|model| {
                model.set_quota(*check.quota);
                model.renew(lease, now)
            })
    }

    /// Makes every counter notice the moment, and says what the request amounts to: one that does
    /// not pass only looks.
    fn see(&mut self, checks: &[Demand<'_>], intent: Intent, now: Micros) -> Intent {
        for check in checks {
            let model = self
                .counters
                .entry(check.key.to_bytes())
                .or_insert_with(|| Model::new(*check.quota));
            model.set_quota(*check.quota);
            model.see(now);
        }
        let passes = self
            .seen(checks)
            .all(|(check, model)| check.shadow || model.passes(check.cost, now));
        if passes { intent } else { Intent::Peek }
    }

    /// The counters of checks that have been seen.
    fn seen<'a>(
        &'a self,
        checks: &'a [Demand<'a>],
    ) -> impl Iterator<Item = (&'a Demand<'a>, &'a Model)> {
        checks
            .iter()
            .map(|check| (check, &self.counters[&check.key.to_bytes()]))
    }

    /// Spends every check that fits, unless the request only looks.
    fn settle(&mut self, checks: &[Demand<'_>], intent: Intent, lease: PermitId, now: Micros) {
        for check in checks {
            let model = self
                .counters
                .get_mut(&check.key.to_bytes())
                .expect("every check's counter was seen");
            *model = model.after(check.cost, now, intent, lease);
        }
    }
}
