//! Sliding window log: every hit with its time.

use tollgate::PermitId;

use super::{COUNT_MAX, CounterModel, SLACK};

#[derive(Clone, Debug)]
pub(super) struct HitLogCounter {
    pub(super) limit: i128,
    length: i128,
    /// In the order of their times.
    hits: Vec<Hit>,
}

#[derive(Clone, Debug)]
struct Hit {
    at: i128,
    cost: i128,
}

impl HitLogCounter {
    pub(super) fn new(limit: i128, length: i128) -> Self {
        Self {
            limit,
            length,
            hits: Vec::new(),
        }
    }

    /// The time of the oldest hit.
    pub(super) fn oldest(&self) -> Option<i128> {
        self.hits.first().map(|hit| hit.at)
    }

    fn sum(&self, at: i128) -> i128 {
        self.hits
            .iter()
            .filter(|hit| hit.at + self.length > at)
            .map(|hit| hit.cost)
            .sum()
    }
}

impl CounterModel for HitLogCounter {
    fn update(&mut self, now: i128) {
        self.hits.retain(|hit| hit.at + self.length > now);
        for hit in self.hits.iter_mut().filter(|hit| hit.at - now > SLACK) {
            hit.at = now;
        }
        self.hits.sort_by_key(|hit| hit.at);
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

    fn add(&mut self, cost: i128, now: i128, _: PermitId) {
        let at = self.hits.last().map_or(now, |last| last.at.max(now));
        self.hits.push(Hit { at, cost });
    }

    fn count(&mut self, cost: i128, debt_max: i128, now: i128, id: PermitId) {
        let room = (self.limit + debt_max).min(COUNT_MAX) - self.sum(now);
        if room.min(cost) > 0 {
            self.add(room.min(cost), now, id);
        }
    }

    fn charged_in(&self) -> i128 {
        self.hits.last().map_or(0, |hit| hit.at)
    }

    fn give_back(&mut self, units: i128, charged_in: i128, _: i128) {
        let mut rest = units;
        let earlier = self
            .hits
            .iter_mut()
            .rev()
            .filter(|hit| hit.at <= charged_in);
        for hit in earlier {
            let back = rest.min(hit.cost);
            hit.cost -= back;
            rest -= back;
        }
        self.hits.retain(|hit| hit.cost > 0);
    }

    fn refund(&mut self, cost: i128, _: i128) {
        let mut rest = cost;
        for hit in self.hits.iter_mut().rev() {
            let back = rest.min(hit.cost);
            hit.cost -= back;
            rest -= back;
        }
        self.hits.retain(|hit| hit.cost > 0);
    }
}
