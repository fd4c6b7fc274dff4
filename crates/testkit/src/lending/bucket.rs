//! A token bucket or a leaky meter with leased units: the backlog in exact parts of a unit.
//!
//! A unit has `period` parts and a microsecond drains `per` of them, so that every amount is a
//! whole number.

use super::{GENERATION, OUT_FOR, SLACK};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LendingBucket {
    capacity: i128,
    per: i128,
    period: i128,
    /// What is missing from a full bucket at the time `at`, in parts.
    backlog: i128,
    at: i128,
    /// The generation that new leases belong to, if any units are leased.
    young: i128,
    /// All leased units, by generation. A generation is named by its start time.
    out: Vec<(i128, i128)>,
}

impl LendingBucket {
    pub(super) fn new(capacity: i128, (per, period): (i128, i128)) -> Self {
        Self {
            capacity,
            per,
            period,
            backlog: 0,
            at: 0,
            young: 0,
            out: Vec::new(),
        }
    }

    fn whole(&self) -> i128 {
        self.capacity * self.period
    }

    /// What is missing at a time, if nothing happens until then.
    pub(super) fn backlog(&self, at: i128) -> i128 {
        (self.backlog - (at - self.at) * self.per).max(0)
    }

    /// The units that are leased.
    pub(super) fn out(&self) -> i128 {
        self.out.iter().map(|(_, units)| units).sum()
    }

    /// The leased units in parts, rounded up to a microsecond, and at most the capacity.
    fn out_weight(&self) -> i128 {
        ((self.out() * self.period + self.per - 1) / self.per * self.per).min(self.whole())
    }

    /// Updates the bucket to the time `now`. Returns true if the clock was set back and the stored
    /// values were corrected.
    pub(super) fn update(&mut self, now: i128) -> bool {
        let span = (self.whole() + self.per - 1) / self.per;
        let is_set_back = self.backlog(now) / self.per > span + SLACK;

        if is_set_back {
            (self.backlog, self.at) = (self.whole(), now);
        }

        if self.young - now > SLACK {
            // The clock was set back: the generation names have lost their meaning, and leased
            // units count from now.
            let out = self.out();
            (self.young, self.out) = (now, vec![(now, out)]);
        }

        while let Some(ends) = self
            .out
            .iter()
            .map(|(name, _)| name + OUT_FOR)
            .filter(|ends| *ends <= now)
            .min()
        {
            self.fill_no_further(ends);
            self.out.retain(|(name, _)| name + OUT_FOR > ends);
        }

        self.fill_no_further(now);
        is_set_back
    }

    /// Limits the level at this time to what the leased units leave free.
    fn fill_no_further(&mut self, at: i128) {
        if self.out_weight() > self.backlog(at) {
            (self.backlog, self.at) = (self.out_weight(), at);
        }
    }

    pub(super) fn fits(&self, cost: i128, at: i128) -> bool {
        self.backlog(at) + cost * self.period <= self.whole()
    }

    pub(super) fn remaining(&self, at: i128) -> i128 {
        (self.whole() - self.backlog(at)).div_euclid(self.period)
    }

    pub(super) fn is_fresh(&self, at: i128) -> bool {
        self.backlog(at) == 0
    }

    pub(super) fn add(&mut self, units: i128, now: i128) {
        (self.backlog, self.at) = (self.backlog(now) + units * self.period, now);
    }

    pub(super) fn refund(&mut self, units: i128, now: i128) {
        // An unused counter stores nothing.
        if self.at > 0 {
            (self.backlog, self.at) = ((self.backlog(now) - units * self.period).max(0), now);
        }
    }

    /// Removes a lease from the list, if it is there, and returns `back` of its units to the
    /// bucket.
    pub(super) fn settle(&mut self, name: i128, held: i128, back: i128, now: i128) -> bool {
        let known: i128 = self
            .out
            .iter()
            .filter(|(other, _)| *other == name)
            .map(|(_, units)| units)
            .sum();

        let is_kept = name > 0 && self.out.iter().any(|(other, _)| *other == name) && held <= known;
        if is_kept {
            self.refund(back, now);

            let mut rest = held;
            for (_, units) in self.out.iter_mut().filter(|(other, _)| *other == name) {
                let off = rest.min(*units);
                (*units, rest) = (*units - off, rest - off);
            }
        }

        is_kept
    }

    /// The current generation; a new one if the current one has ended.
    pub(super) fn open(&mut self, now: i128) -> i128 {
        if now - self.young >= GENERATION {
            self.young = now;
        }
        self.young
    }

    pub(super) fn lend(&mut self, name: i128, units: i128) {
        self.out.push((name, units));
    }

    /// Normalises the state for storing: without leases there are no generations.
    pub(super) fn write(&mut self) {
        self.out.retain(|(_, units)| *units > 0);
        if self.out.is_empty() {
            self.young = 0;
        }
    }

    /// Normalises the bucket, so that equivalent states are equal.
    pub(super) fn tidy(&mut self, now: i128) {
        self.update(now);
        (self.backlog, self.at) = (self.backlog(now), now);
        self.out.sort_unstable();
        self.out.dedup_by(|next, first| {
            let is_same = next.0 == first.0;
            first.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        self.write();
    }

    /// The time until it is full again: whole microseconds and parts of one.
    pub(super) fn rest(&self, now: i128) -> (i128, i128) {
        let backlog = self.backlog(now);
        (now + backlog / self.per, backlog % self.per)
    }

    /// What remains plus what is leased, in parts, and its upper bound.
    pub(super) fn sum(&self, now: i128) -> (i128, i128) {
        (
            self.whole() - self.backlog(now).min(self.whole()) + self.out() * self.period,
            self.whole(),
        )
    }
}
