//! Concurrency: the permits that are held, and when they time out.

use tollgate::PermitId;
use tollgate::algorithm::IN_FLIGHT_MAX;

use super::{CounterModel, SLACK};

#[derive(Clone, Debug)]
pub(super) struct PermitCounter {
    pub(super) limit: i128,
    pub(super) timeout: i128,
    held: Vec<HeldPermit>,
}

#[derive(Clone, Debug)]
struct HeldPermit {
    id: PermitId,
    cost: i128,
    /// The permit timeout of the quota with which the permit was acquired or renewed.
    length: i128,
    expires: i128,
}

impl PermitCounter {
    pub(super) fn new(limit: i128, timeout: i128) -> Self {
        Self {
            limit,
            timeout,
            held: Vec::new(),
        }
    }

    /// Releases a permit; false if it has already ended.
    pub(super) fn release(&mut self, id: PermitId, now: i128) -> bool {
        self.update(now);
        let before = self.held.len();
        self.held.retain(|held| held.id != id);
        self.held.len() < before
    }

    /// Restarts a permit's timeout; false if it has already ended.
    pub(super) fn renew(&mut self, id: PermitId, now: i128) -> bool {
        self.update(now);
        let found = self.held.iter_mut().find(|held| held.id == id);
        found
            .map(|held| (held.length, held.expires) = (self.timeout, now + self.timeout))
            .is_some()
    }

    fn sum(&self, at: i128) -> i128 {
        self.held
            .iter()
            .filter(|held| held.expires > at)
            .map(|held| held.cost)
            .sum()
    }
}

impl CounterModel for PermitCounter {
    fn update(&mut self, now: i128) {
        for held in self
            .held
            .iter_mut()
            .filter(|held| held.expires - (now + held.length) > SLACK)
        {
            held.expires = now + held.length;
        }
        self.held.retain(|held| held.expires > now);
    }

    fn fits(&self, cost: i128, at: i128) -> bool {
        self.sum(at) + cost <= self.limit
    }

    fn remaining(&self, at: i128) -> i128 {
        self.limit - self.sum(at)
    }

    fn is_fresh(&self, at: i128) -> bool {
        self.sum(at) == 0
    }

    fn add(&mut self, cost: i128, now: i128, timeout: PermitId) {
        self.held.push(HeldPermit {
            id: timeout,
            cost,
            length: self.timeout,
            expires: now + self.timeout,
        });
    }

    fn refund(&mut self, _: i128, _: i128) {}

    /// A permit cannot be taken in part.
    fn count(&mut self, cost: i128, debt_max: i128, now: i128, id: PermitId) {
        let most = (self.limit + debt_max).min(i128::from(IN_FLIGHT_MAX));
        if cost > 0 && self.sum(now) + cost <= most {
            self.add(cost, now, id);
        }
    }

    fn charged_in(&self) -> i128 {
        0
    }

    fn give_back(&mut self, _: i128, _: i128, _: i128) {}
}
