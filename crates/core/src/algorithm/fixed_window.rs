//! Fixed window: a count that starts again when the window ends.
//!
//! The known flaw, where you choose: a full window's worth just before an edge and another just
//! after it pass, so up to twice the limit can pass within one window's length. Choose
//! [`SlidingWindow`](super::SlidingWindow) or [`SlidingLog`](super::SlidingLog) where that matters.

use super::calendar::Calendar;
use super::outcome::{Outcome, Verdict};
use super::{CLOCK_SLACK, amount, window};
use crate::limit::LimitError;
use crate::time::Micros;
use std::time::Duration;

/// When a fixed window begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowStart {
    /// With a key's first hit, for this long. Later hits never extend it.
    FirstHit(Micros),
    /// With the clock's unit, in UTC.
    Clock(Calendar),
}

/// The numbers of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    pub(crate) limit: u64,
    pub(crate) start: WindowStart,
}

/// How much is used of the window that ends at `ends`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) count: u64,
    pub(crate) ends: Micros,
}

impl FixedWindow {
    /// `limit` units per `length`, counted from a key's first hit.
    pub fn new(limit: u64, length: Duration) -> Result<Self, LimitError> {
        Ok(Self {
            limit: amount("limit", limit)?,
            start: WindowStart::FirstHit(window(length)?),
        })
    }

    /// `limit` units per calendar unit in UTC.
    pub fn aligned(limit: u64, unit: Calendar) -> Result<Self, LimitError> {
        Ok(Self {
            limit: amount("limit", limit)?,
            start: WindowStart::Clock(unit),
        })
    }

    /// The most that passes in one window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// When windows begin and end.
    pub const fn start(&self) -> WindowStart {
        self.start
    }

    #[inline]
    pub(crate) fn spend(&self, used: Used, cost: u64, now: Micros) -> (Used, Outcome) {
        let open = self.open(used, now);
        let left = self.limit.saturating_sub(open.count);
        // Looking at a key with no window does not open one; a window pulled in after a clock step
        // stays pulled in.
        let kept = if used.ends <= now { used } else { open };
        if cost > self.limit {
            (kept, self.outcome(Verdict::Never, kept, now))
        } else if cost > left {
            (
                kept,
                self.outcome(
                    Verdict::Deny {
                        retry_after: open.ends.since(now),
                    },
                    kept,
                    now,
                ),
            )
        } else if cost == 0 {
            (kept, self.outcome(Verdict::ALLOW, kept, now))
        } else {
            let spent = Used {
                count: open.count + cost,
                ends: open.ends,
            };
            (spent, self.outcome(Verdict::ALLOW, spent, now))
        }
    }

    pub(crate) fn refund(&self, used: Used, cost: u64, now: Micros) -> Used {
        if used.ends <= now {
            return used;
        }
        let open = self.open(used, now);
        Used {
            count: open.count.saturating_sub(cost),
            ends: open.ends,
        }
    }

    /// The window that holds `now`: the one under way, or a new one with nothing used. A window
    /// with more than its length to go comes from before the clock was set back: it keeps its count
    /// and ends as if it had begun now.
    fn open(&self, used: Used, now: Micros) -> Used {
        let (ends, length_max) = match self.start {
            WindowStart::FirstHit(length) => (now.after(length), length),
            WindowStart::Clock(unit) => (unit.end_of(now), unit.length_max()),
        };
        if used.ends <= now {
            Used { count: 0, ends }
        } else if used.ends.since(now) > length_max.after(CLOCK_SLACK) {
            Used { ends, ..used }
        } else {
            used
        }
    }

    fn outcome(&self, verdict: Verdict, used: Used, now: Micros) -> Outcome {
        let live = used.ends > now && used.count > 0;
        let count = if live { used.count } else { 0 };
        let reset_after = if live {
            used.ends.since(now)
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
