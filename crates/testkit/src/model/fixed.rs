//! Fixed window: a count and the moment at which it is forgotten.

use tollgate::LeaseId;
use tollgate::algorithm::WindowStart;

use super::{Counter, SLACK, calendar, micros};

#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) limit: i128,
    pub(super) start: WindowStart,
    window: Option<Window>,
}

#[derive(Clone, Debug)]
struct Window {
    count: i128,
    /// The first moment outside.
    end: i128,
}

impl Fixed {
    pub(super) fn new(limit: i128, start: WindowStart) -> Self {
        Self { limit, start, window: None }
    }

    /// Where a window ends that a hit at `now` begins.
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

    fn count(&self, at: i128) -> i128 {
        self.window.iter().filter(|window| at < window.end).map(|window| window.count).sum()
    }
}

impl Counter for Fixed {
    fn see(&mut self, now: i128) {
        let (end, longest) = (self.end_if_begun(now), self.longest());
        if let Some(window) = self.window.as_mut().filter(|window| window.end - now > longest + SLACK) {
            window.end = end;
        }
    }

    fn fits(&self, cost: i128, at: i128) -> bool {
        self.count(at) + cost <= self.limit
    }

    fn remaining(&self, at: i128) -> i128 {
        self.limit - self.count(at)
    }

    fn is_fresh(&self, at: i128) -> bool {
        self.count(at) == 0
    }

    fn add(&mut self, cost: i128, now: i128, _: LeaseId) {
        let end = self.end_if_begun(now);
        match self.window.as_mut().filter(|window| now < window.end) {
            Some(window) => window.count += cost,
            None => self.window = Some(Window { count: cost, end }),
        }
    }

    fn refund(&mut self, cost: i128, now: i128) {
        if let Some(window) = self.window.as_mut().filter(|window| now < window.end) {
            window.count = (window.count - cost).max(0);
        }
    }
}
