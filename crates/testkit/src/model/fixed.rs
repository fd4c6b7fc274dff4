//! Fixed window: a count and the time at which it expires.

use tollgate::PermitId;
use tollgate::algorithm::WindowStart;

use super::{COUNT_MAX, CounterModel, SLACK, calendar, micros};

#[derive(Clone, Debug)]
pub(crate) struct FixedCounter {
    pub(super) limit: i128,
    pub(super) start: WindowStart,
    window: Option<WindowCount>,
}

#[derive(Clone, Debug)]
struct WindowCount {
    count: i128,
    /// The end of the window, exclusive.
    end: i128,
}

impl FixedCounter {
    pub(crate) fn new(limit: i128, start: WindowStart) -> Self {
        Self {
            limit,
            start,
            window: None,
        }
    }

    /// Whether the clock was set back since the last update.
    pub(crate) fn is_set_back(&self, now: i128) -> bool {
        self.window
            .as_ref()
            .is_some_and(|window| window.end - now > self.longest() + SLACK)
    }

    /// The end of the current window, or of the one that would begin now. It identifies leases of
    /// this window.
    pub(crate) fn name(&self, now: i128) -> i128 {
        self.open(now)
            .map_or_else(|| self.end_if_begun(now), |window| window.end)
    }

    /// The used units and the end of the current window; both zero if there is none.
    pub(crate) fn seen(&self, now: i128) -> (i128, i128) {
        self.open(now)
            .map_or((0, 0), |window| (window.count, window.end))
    }

    fn open(&self, at: i128) -> Option<&WindowCount> {
        self.window.as_ref().filter(|window| at < window.end)
    }

    /// The end of a window that begins with a hit at `now`.
    fn end_if_begun(&self, now: i128) -> i128 {
        match self.start {
            WindowStart::FirstHit(length) => now + micros(length),
            WindowStart::Clock(unit) => calendar::end_of(unit, now),
        }
    }

    fn longest(&self) -> i128 {
        match self.start {
            WindowStart::FirstHit(length) => micros(length),
            WindowStart::Clock(unit) => calendar::longest(unit),
        }
    }

    fn units(&self, at: i128) -> i128 {
        self.seen(at).0
    }
}

impl CounterModel for FixedCounter {
    fn update(&mut self, now: i128) {
        let (end, is_set_back) = (self.end_if_begun(now), self.is_set_back(now));
        if let Some(window) = self.window.as_mut().filter(|_| is_set_back) {
            window.end = end;
        }
    }

    fn fits(&self, cost: i128, at: i128) -> bool {
        self.units(at) + cost <= self.limit
    }

    fn remaining(&self, at: i128) -> i128 {
        self.limit - self.units(at)
    }

    fn is_fresh(&self, at: i128) -> bool {
        self.units(at) == 0
    }

    fn add(&mut self, cost: i128, now: i128, _: PermitId) {
        let end = self.end_if_begun(now);
        match self.window.as_mut().filter(|window| now < window.end) {
            Some(window) => window.count += cost,
            None => self.window = Some(WindowCount { count: cost, end }),
        }
    }

    fn refund(&mut self, cost: i128, now: i128) {
        if let Some(window) = self.window.as_mut().filter(|window| now < window.end) {
            window.count = (window.count - cost).max(0);
        }
    }

    fn count(&mut self, cost: i128, debt_max: i128, now: i128, id: PermitId) {
        let room = (self.limit + debt_max).min(COUNT_MAX) - self.units(now);
        if room.min(cost) > 0 {
            self.add(room.min(cost), now, id);
        }
    }

    fn charged_in(&self) -> i128 {
        self.window.as_ref().map_or(0, |window| window.end)
    }

    fn give_back(&mut self, units: i128, charged_in: i128, now: i128) {
        if self.charged_in() == charged_in {
            self.refund(units, now);
        }
    }
}
