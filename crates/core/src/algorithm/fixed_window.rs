//! Fixed window: a count that starts again at zero when the window ends.
//!
//! Its known flaw: the whole limit can be spent just before the end of a window and again just
//! after it, so up to twice the limit can be allowed within one window's length. Choose
//! [`SlidingWindow`](super::SlidingWindow) or [`SlidingLog`](super::SlidingLog) where that matters.

use super::calendar::Calendar;
use super::outcome::{Outcome, Verdict};
use super::{CLOCK_SLACK, validate_amount, validate_window};
use crate::limit::LimitError;
use crate::time::Micros;
use std::time::Duration;

/// When a fixed window begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowStart {
    /// The window begins with a key's first hit and lasts this long. Later hits do not extend it.
    FirstHit(Micros),
    /// The window is a calendar unit in UTC.
    Clock(Calendar),
}

/// The parameters of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    pub(crate) limit: u64,
    pub(crate) start: WindowStart,
}

/// The units spent in the window that ends at `ends`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WindowCount {
    pub(crate) count: u64,
    pub(crate) ends: Micros,
}

impl FixedWindow {
    /// `limit` units per `length`, counted from a key's first hit.
    pub fn new(limit: u64, length: Duration) -> Result<Self, LimitError> {
        Ok(Self {
            limit: validate_amount("limit", limit)?,
            start: WindowStart::FirstHit(validate_window(length)?),
        })
    }

    /// `limit` units per calendar unit in UTC.
    pub fn aligned(limit: u64, unit: Calendar) -> Result<Self, LimitError> {
        Ok(Self {
            limit: validate_amount("limit", limit)?,
            start: WindowStart::Clock(unit),
        })
    }

    /// The most units allowed in one window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// When windows begin and end.
    pub const fn start(&self) -> WindowStart {
        self.start
    }

    /// Spends `cost` when it fits, and returns the window after that.
    #[inline]
    pub(crate) fn spend(
        &self,
        state: WindowCount,
        cost: u64,
        now: Micros,
    ) -> (WindowCount, Outcome) {
        let open = self.open_window(state, now);
        let left = self.limit.saturating_sub(open.count);
        // A demand that spends nothing does not open a window. A window that was shortened because
        // the clock was set back stays shortened.
        let unspent = if state.ends <= now { state } else { open };

        if cost > self.limit {
            (unspent, self.outcome(Verdict::Never, unspent, now))
        } else if cost > left {
            let retry_after = open.ends.since(now);
            let outcome = self.outcome(Verdict::Deny { retry_after }, unspent, now);
            (unspent, outcome)
        } else if cost == 0 {
            (unspent, self.outcome(Verdict::ALLOW, unspent, now))
        } else {
            let spent = WindowCount {
                count: open.count + cost,
                ends: open.ends,
            };
            (spent, self.outcome(Verdict::ALLOW, spent, now))
        }
    }

    /// Returns `cost` units to the current window, at most what was spent in it.
    pub(crate) fn refund(&self, state: WindowCount, cost: u64, now: Micros) -> WindowCount {
        if state.ends <= now {
            return state;
        }

        let open = self.open_window(state, now);
        WindowCount {
            count: open.count.saturating_sub(cost),
            ends: open.ends,
        }
    }

    /// The window that contains `now`: the current one, or a new one with nothing spent. A window
    /// that ends later than its length allows was stored before the clock was set back: it keeps
    /// its count and ends as if it had begun now.
    fn open_window(&self, state: WindowCount, now: Micros) -> WindowCount {
        let (ends, length_max) = match self.start {
            WindowStart::FirstHit(length) => (now.after(length), length),
            WindowStart::Clock(unit) => (unit.end_of(now), unit.length_max()),
        };

        if state.ends <= now {
            WindowCount { count: 0, ends }
        } else if state.ends.since(now) > length_max.after(CLOCK_SLACK) {
            WindowCount { ends, ..state }
        } else {
            state
        }
    }

    fn outcome(&self, verdict: Verdict, state: WindowCount, now: Micros) -> Outcome {
        let is_open = state.ends > now && state.count > 0;
        let count = if is_open { state.count } else { 0 };
        let reset_after = if is_open {
            state.ends.since(now)
        } else {
            Micros::ZERO
        };

        Outcome {
            verdict,
            limit: self.limit,
            remaining: self.limit.saturating_sub(count),
            reset_after,
        }
    }
}
