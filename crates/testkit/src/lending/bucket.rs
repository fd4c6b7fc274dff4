//! A token bucket or a leaky meter with leased units: the backlog in exact parts of a unit.
//!
//! A unit has `period` parts and a microsecond drains `per` of them, so that every amount is a
//! whole number.

use super::{GENERATION_MAX, MARGIN, RECOVERY_MAX, SLACK};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LendingBucket {
    capacity: i128,
    per: i128,
    period: i128,
    /// What is missing from a full bucket at the time `at`, in parts.
    backlog: i128,
    at: i128,
    /// Whether more was missing than the capacity when `backlog` was set by a charge or a refund.
    is_in_debt: bool,
    /// The leased units by generation, in the order of their ends. A generation is named by its
    /// end.
    out: Vec<(i128, i128)>,
    /// The least backlog without leased units since each reservation was made, as far as it is
    /// known: from when reservations or refunds changed the bucket.
    lows: Vec<i128>,
    noted: NotedBacklog,
}

/// The backlog without leased units when the lows were last updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct NotedBacklog {
    backlog: i128,
    at: i128,
    is_in_debt: bool,
}

impl LendingBucket {
    pub(super) fn new(capacity: i128, (per, period): (i128, i128)) -> Self {
        Self {
            capacity,
            per,
            period,
            backlog: 0,
            at: 0,
            is_in_debt: false,
            out: Vec::new(),
            lows: Vec::new(),
            noted: NotedBacklog::default(),
        }
    }

    fn whole(&self) -> i128 {
        self.capacity * self.period
    }

    /// What is missing at a time, if nothing happens until then.
    pub(super) fn backlog(&self, at: i128) -> i128 {
        (self.backlog - (at - self.at) * self.per).max(0)
    }

    fn set_backlog(&mut self, backlog: i128, now: i128) {
        (self.backlog, self.at, self.is_in_debt) = (backlog, now, backlog > self.whole());
    }

    /// Whether more is missing at this time than the capacity.
    pub(super) fn is_in_debt(&self, at: i128) -> bool {
        self.backlog(at) > self.whole()
    }

    /// The units that are leased.
    pub(super) fn out(&self) -> i128 {
        self.out.iter().map(|(_, units)| units).sum()
    }

    /// The leased units in parts, rounded up to a microsecond, and at most the capacity.
    fn out_weight(&self) -> i128 {
        ((self.out() * self.period + self.per - 1) / self.per * self.per).min(self.whole())
    }

    /// Updates the bucket to the time `now`.
    pub(super) fn update(&mut self, now: i128) {
        self.correct(now);
        self.end_leases(now);
    }

    /// Returns true if the clock was set back and the stored values were corrected.
    pub(super) fn correct(&mut self, now: i128) -> bool {
        let span = (self.whole() + self.per - 1) / self.per;
        // A bucket in debt keeps its moment when the clock is set back.
        let longest = if self.is_in_debt { RECOVERY_MAX } else { span };
        let is_set_back = self.backlog(now) / self.per > longest + SLACK;

        if is_set_back {
            self.set_backlog(self.whole(), now);
        }
        is_set_back
    }

    /// Keeps the leased units from being refilled until now, and those of leases that have ended
    /// until then.
    pub(super) fn end_leases(&mut self, now: i128) {
        if self
            .out
            .last()
            .is_some_and(|(ends, _)| ends - now > GENERATION_MAX + SLACK)
        {
            // The clock was set back: the generation names have lost their meaning, and leased
            // units count from now.
            self.out = vec![(now + GENERATION_MAX, self.out())];
        }

        while let Some((ends, _)) = self.out.first().copied().filter(|(ends, _)| *ends <= now) {
            self.fill_no_further(ends);
            self.out.remove(0);
        }

        self.fill_no_further(now);
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
        self.set_backlog(self.backlog(now) + units * self.period, now);
    }

    /// Adds units whether they fit or not, but no more than the bucket may owe.
    pub(super) fn count(&mut self, units: i128, debt_max: i128, now: i128) {
        let before = self.backlog(now);
        let most = ((self.capacity + debt_max) * self.period).min(RECOVERY_MAX * self.per);
        let backlog = before + units * self.period;
        self.set_backlog(backlog.min(most.max(before)), now);
    }

    pub(super) fn refund(&mut self, units: i128, now: i128) {
        // An unused counter stores nothing.
        if self.at > 0 {
            self.set_backlog((self.backlog(now) - units * self.period).max(0), now);
        }
    }

    /// Lowers the lows to the backlog that is certainly left.
    fn observe(&mut self, now: i128) {
        let NotedBacklog {
            backlog,
            at,
            is_in_debt,
        } = self.noted;
        let left = (backlog - (now - at) * self.per).max(0);
        let span = (self.whole() + self.per - 1) / self.per;
        let longest = if is_in_debt { RECOVERY_MAX } else { span };
        let is_set_back = left / self.per > longest + SLACK;
        let low = if is_set_back { 0 } else { left };
        for other in &mut self.lows {
            *other = (*other).min(low);
        }
    }

    /// Notes the backlog after reservations or a refund have changed it, and leases have ended.
    pub(super) fn note_change(&mut self, now: i128) {
        self.observe(now);
        let leased = (self.out() * self.period + self.per - 1) / self.per * self.per;
        self.noted = NotedBacklog {
            backlog: self.backlog(now) - leased,
            at: now,
            is_in_debt: self.is_in_debt,
        };
    }

    /// Numbers a reservation whose units were just added.
    pub(super) fn reserve(&mut self, now: i128) -> i128 {
        self.note_change(now);
        self.lows.push(self.noted.backlog.max(0));
        self.lows.len() as i128 - 1
    }

    /// Returns units of a reservation, at most what was missing all the time since then. The change
    /// must be noted when leases have ended.
    pub(super) fn give_back(&mut self, units: i128, number: i128, now: i128) {
        self.observe(now);
        let number = usize::try_from(number).expect("a bucket counts its reservations");
        let returned = (units * self.period).min(self.lows[number]);
        for low in &mut self.lows[number..] {
            *low -= returned;
        }
        let low = self.lows[number];
        for earlier in &mut self.lows[..number] {
            *earlier = (*earlier).min(low);
        }
        self.set_backlog((self.backlog(now) - returned).max(0), now);
    }

    /// Removes a lease from its generation, if it is there, and returns `back` of its units to the
    /// bucket.
    pub(super) fn settle(&mut self, name: i128, held: i128, back: i128, now: i128) -> bool {
        let generation = self.out.iter_mut().find(|(other, _)| *other == name);
        let Some((_, units)) = generation.filter(|(_, units)| held <= *units) else {
            return false;
        };

        *units -= held;
        self.out.retain(|(_, units)| *units > 0);
        self.refund(back, now);
        true
    }

    /// Lends units for a time. Returns the name of their generation: the first that ends late
    /// enough and not much later, or a new one.
    pub(super) fn lend(&mut self, units: i128, length: i128, now: i128) -> i128 {
        let earliest = now + length + MARGIN;
        let late_enough = self.out.iter().position(|(ends, _)| *ends >= earliest);
        let index = late_enough.unwrap_or(self.out.len());

        let is_near = |(ends, _): &(i128, i128)| *ends <= earliest + length;
        if !self.out.get(index).is_some_and(is_near) {
            self.out.insert(index, (earliest + length, 0));
        }
        self.out[index].1 += units;
        self.out[index].0
    }

    /// Normalises the bucket, so that equivalent states are equal.
    pub(super) fn tidy(&mut self, now: i128) {
        self.update(now);
        self.set_backlog(self.backlog(now), now);
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
