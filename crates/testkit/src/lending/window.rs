//! Fixed and sliding windows with units out: they count as spent when they are given.

use std::collections::BTreeMap;

use tollgate::Micros;
use tollgate::algorithm::WindowStart;

use super::SLACK;

/// A count and the moment at which it is forgotten.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    limit: i128,
    start: WindowStart,
    count: i128,
    end: i128,
}

impl Fixed {
    pub(super) fn new(limit: i128, start: WindowStart) -> Self {
        Self { limit, start, count: 0, end: 0 }
    }

    fn end_if_begun(&self, now: i128) -> i128 {
        let now = Micros::new(u64::try_from(now).expect("no moment is before the epoch"));
        i128::from(match self.start {
            WindowStart::FirstHit(length) => now.after(length).get(),
            WindowStart::Clock(unit) => unit.end_of(now).get(),
        })
    }

    fn longest(&self) -> i128 {
        i128::from(match self.start {
            WindowStart::FirstHit(length) => length.get(),
            WindowStart::Clock(unit) => unit.length_max().get(),
        })
    }

    /// True when the clock was set back: the window ends as if it had begun now.
    pub(super) fn see(&mut self, now: i128) -> bool {
        let is_set_back = self.end - now > self.longest() + SLACK;
        if is_set_back {
            self.end = self.end_if_begun(now);
        }
        is_set_back
    }

    fn count(&self, at: i128) -> i128 {
        if at < self.end { self.count } else { 0 }
    }

    pub(super) fn remaining(&self, at: i128) -> i128 {
        self.limit - self.count(at)
    }

    pub(super) fn is_fresh(&self, at: i128) -> bool {
        self.count(at) == 0
    }

    /// Where the window under way ends, or the one that would begin now.
    pub(super) fn name(&self, now: i128) -> i128 {
        if now < self.end { self.end } else { self.end_if_begun(now) }
    }

    pub(super) fn add(&mut self, units: i128, now: i128) {
        (self.count, self.end) = (self.count(now) + units, self.name(now));
    }

    pub(super) fn refund(&mut self, units: i128, now: i128) {
        if now < self.end {
            self.count = (self.count - units).max(0);
        }
    }

    /// What is used and until when, as far as there is a window.
    pub(super) fn seen(&self, now: i128) -> (i128, i128) {
        if now < self.end { (self.count, self.end) } else { (0, 0) }
    }
}

/// What was spent in each window, the previous one weighted by what is left of this one.
#[derive(Clone, Debug)]
pub(super) struct Sliding {
    limit: i128,
    length: i128,
    /// By the window's number since the epoch.
    spent: BTreeMap<i128, i128>,
    /// The window written to last.
    counted: i128,
}

impl Sliding {
    pub(super) fn new(limit: i128, length: i128) -> Self {
        Self { limit, length, spent: BTreeMap::new(), counted: 0 }
    }

    /// True when the clock was set back: everything counts as fresh.
    pub(super) fn see(&mut self, now: i128) -> bool {
        let is_set_back = self.counted * self.length - now > SLACK;
        if is_set_back {
            let everything = self.spent_in(self.counted) + self.spent_in(self.counted - 1);
            self.counted = now / self.length;
            self.spent = BTreeMap::from([(self.counted, everything)]);
        }
        is_set_back
    }

    fn at_least_counted(&self, at: i128) -> i128 {
        at.max(self.counted * self.length)
    }

    fn spent_in(&self, window: i128) -> i128 {
        self.spent.get(&window).copied().unwrap_or_default()
    }

    /// The weighted count, in `length`-ths of a unit.
    fn used(&self, at: i128) -> i128 {
        let (current, previous, _) = self.seen(at);
        let left = self.length - self.at_least_counted(at) % self.length;
        current * self.length + previous * left
    }

    pub(super) fn fits(&self, cost: i128, at: i128) -> bool {
        self.used(at) + cost * self.length <= self.limit * self.length
    }

    pub(super) fn remaining(&self, at: i128) -> i128 {
        (self.limit * self.length - self.used(at)).div_euclid(self.length)
    }

    pub(super) fn is_fresh(&self, at: i128) -> bool {
        self.used(at) == 0
    }

    /// When the window under way began.
    pub(super) fn name(&self, now: i128) -> i128 {
        self.at_least_counted(now) / self.length * self.length
    }

    pub(super) fn add(&mut self, units: i128, now: i128) {
        self.counted = self.at_least_counted(now) / self.length;
        *self.spent.entry(self.counted).or_default() += units;
    }

    /// Gives back what this window took.
    pub(super) fn give_back(&mut self, units: i128, now: i128) {
        self.counted = self.at_least_counted(now) / self.length;
        self.spent.entry(self.counted).and_modify(|spent| *spent = (*spent - units).max(0));
    }

    /// Gives back what this window took and then what the one before took.
    pub(super) fn refund(&mut self, units: i128, now: i128) {
        if self.spent.is_empty() {
            return;
        }
        let here = self.spent_in(self.at_least_counted(now) / self.length);
        self.give_back(units, now);
        let rest = (units - here).max(0);
        self.spent.entry(self.counted - 1).and_modify(|spent| *spent = (*spent - rest).max(0));
    }

    /// This window's count, the previous one's, and when this one began.
    pub(super) fn seen(&self, at: i128) -> (i128, i128, i128) {
        let window = self.at_least_counted(at) / self.length;
        (self.spent_in(window), self.spent_in(window - 1), window * self.length)
    }
}
