//! Sliding window counter: the units spent in each window, with the previous window weighted by
//! what is left of the current one.

use std::collections::BTreeMap;

use tollgate::PermitId;

use super::fraction::Fraction;
use super::{COUNT_MAX, CounterModel, SLACK};

#[derive(Clone, Debug)]
pub(crate) struct SlidingCounter {
    pub(super) limit: i128,
    length: i128,
    /// The units spent in each window, by the window's number since the epoch.
    spent: BTreeMap<i128, i128>,
    /// The window of the last spend or refund, or the one to which the clock was set back.
    counted: i128,
}

impl SlidingCounter {
    pub(crate) fn new(limit: i128, length: i128) -> Self {
        Self {
            limit,
            length,
            spent: BTreeMap::new(),
            counted: 0,
        }
    }

    /// Whether the clock was set back since the last update.
    pub(crate) fn is_set_back(&self, now: i128) -> bool {
        self.counted * self.length - now > SLACK
    }

    /// The start of the current window. It identifies leases of this window.
    pub(crate) fn name(&self, now: i128) -> i128 {
        self.at_least_counted(now) / self.length * self.length
    }

    /// Returns units to the current window, and none to the previous one.
    pub(crate) fn give_back(&mut self, units: i128, now: i128) {
        self.counted = self.at_least_counted(now) / self.length;
        self.spent
            .entry(self.counted)
            .and_modify(|spent| *spent = (*spent - units).max(0));
    }

    /// A time before the counted window is treated as its start.
    fn at_least_counted(&self, at: i128) -> i128 {
        at.max(self.counted * self.length)
    }

    fn spent_in(&self, window: i128) -> i128 {
        self.spent.get(&window).copied().unwrap_or_default()
    }

    /// The counts of the current and of the previous window.
    pub(crate) fn counts(&self, at: i128) -> (i128, i128) {
        let window = self.at_least_counted(at) / self.length;
        (self.spent_in(window), self.spent_in(window - 1))
    }

    /// The weighted count.
    fn used(&self, at: i128) -> Fraction {
        let (current, previous) = self.counts(at);
        let left = self.length - self.at_least_counted(at) % self.length;
        Fraction::whole(current).plus(&Fraction::whole(previous).times(left, self.length))
    }
}

impl CounterModel for SlidingCounter {
    fn update(&mut self, now: i128) {
        if self.is_set_back(now) {
            // No count exceeds the largest possible limit.
            let everything =
                (self.spent_in(self.counted) + self.spent_in(self.counted - 1)).min(1 << 53);
            self.counted = now / self.length;
            self.spent = BTreeMap::from([(self.counted, everything)]);
        }
    }

    fn fits(&self, cost: i128, at: i128) -> bool {
        self.used(at).plus(&Fraction::whole(cost)) <= Fraction::whole(self.limit)
    }

    fn remaining(&self, at: i128) -> i128 {
        Fraction::whole(self.limit).minus(&self.used(at)).floor()
    }

    fn is_fresh(&self, at: i128) -> bool {
        self.counts(at) == (0, 0)
    }

    fn add(&mut self, cost: i128, now: i128, _: PermitId) {
        self.counted = self.at_least_counted(now) / self.length;
        *self.spent.entry(self.counted).or_default() += cost;
    }

    fn count(&mut self, cost: i128, debt_max: i128, now: i128, id: PermitId) {
        let room = (self.limit + debt_max).min(COUNT_MAX) - self.counts(now).0;
        if room.min(cost) > 0 {
            self.add(room.min(cost), now, id);
        }
    }

    fn charged_in(&self) -> i128 {
        self.counted
    }

    fn give_back(&mut self, units: i128, charged_in: i128, now: i128) {
        if self.spent.is_empty() {
            return;
        }
        self.counted = self.at_least_counted(now) / self.length;
        if [self.counted, self.counted - 1].contains(&charged_in) {
            let spent = self.spent.entry(charged_in);
            spent.and_modify(|spent| *spent = (*spent - units).max(0));
        }
    }

    fn refund(&mut self, cost: i128, now: i128) {
        if self.spent.is_empty() {
            return;
        }

        self.counted = self.at_least_counted(now) / self.length;
        // No check can have spent more.
        let mut rest = cost.min(1 << 53);

        for window in [self.counted, self.counted - 1] {
            let back = rest.min(self.spent_in(window));
            self.spent.entry(window).and_modify(|spent| *spent -= back);
            rest -= back;
        }
    }
}
