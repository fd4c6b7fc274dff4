//! A token bucket or a leaky meter with units out: the backlog in exact parts of a unit.
//!
//! A unit weighs `period` parts and a microsecond works off `per` of them, so that every amount is
//! a whole number.

use super::{GENERATION, OUT_FOR, SLACK};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bucket {
    capacity: i128,
    per: i128,
    period: i128,
    /// What is missing from a full bucket at a moment, in parts.
    backlog: i128,
    at: i128,
    /// The generation that takes in leases, if anything is out.
    young: i128,
    /// Everything that is out: the generation's name, which is when it began, and units.
    out: Vec<(i128, i128)>,
}

impl Bucket {
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

    /// What is missing at a moment if nothing happens until then.
    pub(super) fn backlog(&self, at: i128) -> i128 {
        (self.backlog - (at - self.at) * self.per).max(0)
    }

    /// Units out.
    pub(super) fn out(&self) -> i128 {
        self.out.iter().map(|(_, units)| units).sum()
    }

    /// What is out weighs this much, rounded up to a microsecond, and no more than everything.
    fn out_weight(&self) -> i128 {
        ((self.out() * self.period + self.per - 1) / self.per * self.per).min(self.whole())
    }

    /// Lives through the time until `now`. True when the clock was set back and what is written
    /// down is put right.
    pub(super) fn see(&mut self, now: i128) -> bool {
        let span = (self.whole() + self.per - 1) / self.per;
        let is_set_back = self.backlog(now) / self.per > span + SLACK;
        if is_set_back {
            (self.backlog, self.at) = (self.whole(), now);
        }
        if self.young - now > SLACK {
            // The clock was set back: the names mean nothing any more, and what is out counts from
            // now.
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

    /// At this moment the bucket is not fuller than what is out leaves room for.
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
        // Of what nobody has used nothing is kept.
        if self.at > 0 {
            (self.backlog, self.at) = ((self.backlog(now) - units * self.period).max(0), now);
        }
    }

    /// Takes a lease off the list, if it is on it, and `back` of it into the bucket.
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

    /// The generation under way, a new one if it is time for it.
    pub(super) fn open(&mut self, now: i128) -> i128 {
        if now - self.young >= GENERATION {
            self.young = now;
        }
        self.young
    }

    pub(super) fn lend(&mut self, name: i128, units: i128) {
        self.out.push((name, units));
    }

    /// What is written down: nothing of generations when nothing is out.
    pub(super) fn write(&mut self) {
        self.out.retain(|(_, units)| *units > 0);
        if self.out.is_empty() {
            self.young = 0;
        }
    }

    /// The same bucket as it is now, so that what means the same is the same.
    pub(super) fn tidy(&mut self, now: i128) {
        self.see(now);
        (self.backlog, self.at) = (self.backlog(now), now);
        self.out.sort_unstable();
        self.out.dedup_by(|next, first| {
            let is_same = next.0 == first.0;
            first.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        self.write();
    }

    /// When it is full again: whole microseconds and parts of one.
    pub(super) fn rest(&self, now: i128) -> (i128, i128) {
        let backlog = self.backlog(now);
        (now + backlog / self.per, backlog % self.per)
    }

    /// What is left and what is out, in parts; at most `whole`.
    pub(super) fn sum(&self, now: i128) -> (i128, i128) {
        (
            self.whole() - self.backlog(now).min(self.whole()) + self.out() * self.period,
            self.whole(),
        )
    }
}
