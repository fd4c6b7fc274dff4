//! Fixed window: a count that starts again at zero when the window ends.
//!
//! Its known flaw: the whole limit can be spent just before the end of a window and again just
//! after it, so up to twice the limit can be allowed within one window's length. Choose
//! [`SlidingWindow`](super::SlidingWindow) or [`SlidingLog`](super::SlidingLog) where that matters.

use std::time::Duration;

use super::calendar::Calendar;
use super::key_lock::KeyLock;
use super::outcome::{CLOCK_SLACK, FixedStateAlgorithm, Outcome, Verdict, charged_count};
use crate::limit_error::{LimitError, validate_amount, validate_window};
use crate::time::Micros;

/// When a fixed window begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowStart {
    /// The window begins with a key's first hit and lasts this long. Later hits do not extend it.
    FirstHit(Micros),
    /// The window is a calendar unit in UTC.
    Clock(Calendar),
}

impl WindowStart {
    /// The greatest length of a window.
    pub const fn length_max(self) -> Micros {
        match self {
            Self::FirstHit(length) => length,
            Self::Clock(unit) => unit.length_max(),
        }
    }
}

/// The parameters of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    pub(crate) limit: u64,
    pub(crate) start: WindowStart,
}

/// The current window of a fixed window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCount {
    /// Units spent in the window.
    pub count: u64,
    /// When the window ends.
    pub ends: Micros,
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

    /// The window that contains `now`: the current one, or a new one with nothing spent. A window
    /// that ends later than its length allows was stored before the clock was set back: it keeps
    /// its count and ends as if it had begun now.
    fn open_window(&self, state: WindowCount, now: Micros) -> WindowCount {
        let is_open = state.ends > now;
        let left_max = self.start.length_max().after(CLOCK_SLACK);
        if is_open && state.ends.since(now) <= left_max {
            return state;
        }

        let ends = match self.start {
            WindowStart::FirstHit(length) => now.after(length),
            WindowStart::Clock(unit) => unit.end_of(now),
        };
        let count = if is_open { state.count } else { 0 };
        WindowCount { count, ends }
    }
}

impl FixedStateAlgorithm for FixedWindow {
    type State = WindowCount;

    #[inline(always)]
    fn apply(&self, state: WindowCount, cost: u64, now: Micros) -> (WindowCount, Verdict) {
        let open = self.open_window(state, now);
        let verdict = if cost > self.limit {
            Verdict::Never
        } else if cost > self.limit.saturating_sub(open.count) {
            let retry_after = open.ends.since(now);
            Verdict::Deny { retry_after }
        } else {
            Verdict::ALLOW
        };

        let next = if verdict.is_allowed() && cost > 0 {
            let count = open.count + cost;
            WindowCount { count, ..open }
        } else if state.ends <= now {
            // A demand that spends nothing does not open a window.
            state
        } else {
            open
        };
        (next, verdict)
    }

    #[inline(always)]
    fn outcome(&self, state: WindowCount, verdict: Verdict, now: Micros) -> Outcome {
        let (count, reset_after) = if state.ends > now && state.count > 0 {
            (state.count, state.ends.since(now))
        } else {
            (0, Micros::ZERO)
        };
        Outcome {
            verdict,
            limit: self.limit,
            remaining: self.limit.saturating_sub(count),
            reset_after,
            more_after: if verdict.is_allowed() {
                reset_after
            } else {
                Micros::ZERO
            },
            lock: KeyLock::NONE,
        }
    }

    fn charge(&self, state: WindowCount, cost: u64, debt_max: u64, now: Micros) -> WindowCount {
        let open = self.open_window(state, now);
        let count = charged_count(open.count, cost, self.limit, debt_max);
        WindowCount { count, ..open }
    }

    fn refund(&self, state: WindowCount, cost: u64, now: Micros) -> WindowCount {
        if state.ends <= now {
            return state;
        }

        let open = self.open_window(state, now);
        let count = open.count.saturating_sub(cost);
        WindowCount { count, ..open }
    }

    /// The end of the window.
    fn charged_in(state: WindowCount) -> Micros {
        state.ends
    }

    fn give_back(
        &self,
        state: WindowCount,
        units: u64,
        charged_in: Micros,
        now: Micros,
    ) -> WindowCount {
        let state = self.refund(state, 0, now);
        if state.ends == charged_in {
            self.refund(state, units, now)
        } else {
            state
        }
    }
}
