//! What a remote store needs to know about a quota.
//!
//! The store's script decides with a few [`ScriptNumbers`] and additions only, and returns the
//! [`CounterState`] it found. The outcome is computed here from that state, by the same arithmetic
//! as in the memory store. So both stores give the same outcomes, and the scripts stay small.

mod lending;

pub use lending::LendingNumbers;

use super::division::{ProductInt, product};
use super::{AMOUNT_MAX, Gcra, LeakyBucket, Outcome, Quota, TokenBucket, Verdict, WindowStart};
use crate::time::Micros;

/// The time that a bucket takes to work off some units, to a fraction of a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainTime {
    /// Whole microseconds.
    pub micros: u64,
    /// Parts of a microsecond; the rate's `per` parts make one.
    pub part: u64,
}

/// The numbers with which a script decides a demand. A double represents each of them exactly, and
/// a cost above the limit stays above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptNumbers {
    /// A token bucket or either leaky bucket.
    Bucket {
        /// How long the whole capacity takes to work off.
        whole: DrainTime,
        /// What the demand adds to the backlog.
        cost: DrainTime,
        /// Parts per microsecond.
        per: u64,
        /// `whole` in microseconds, rounded up.
        span: Micros,
    },
    /// A fixed window.
    Fixed {
        /// The most units allowed in one window.
        limit: u64,
        /// The cost of the demand in units.
        cost: u64,
        /// When windows begin and end.
        start: WindowStart,
    },
    /// A sliding window counter.
    Sliding {
        /// The most units allowed in one window.
        limit: u64,
        /// The cost of the demand in units.
        cost: u64,
        /// The length of the window.
        length: Micros,
    },
    /// A sliding window log.
    Log {
        /// The most units allowed in any interval of the window's length.
        limit: u64,
        /// The cost of the demand in units.
        cost: u64,
        /// The length of the window.
        length: Micros,
    },
    /// A concurrency limit.
    Permits {
        /// The most units in flight.
        limit: u64,
        /// The cost of the demand in units.
        cost: u64,
        /// The permit timeout.
        length: Micros,
    },
}

/// The state of a counter before a demand is spent, corrected if the clock was set back since.
///
/// It may still contain entries that have expired by the moment of the decision. All fields of a
/// counter that was never used are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterState {
    /// The moment at which a bucket is idle again: full of tokens, or drained.
    Bucket {
        /// Whole microseconds since the epoch.
        at: Micros,
        /// Parts of a microsecond.
        part: u64,
    },
    /// The current window of a fixed window.
    Fixed {
        /// Units spent in the window.
        count: u64,
        /// When the window ends.
        ends: Micros,
    },
    /// The current and the previous window of a sliding window.
    Sliding {
        /// Units spent in the current window.
        current: u64,
        /// Units spent in the previous window.
        previous: u64,
        /// When the current window began.
        start: Micros,
    },
    /// The hits of a log or the permits of a concurrency limit.
    Entries(EntryTotals),
}

/// The totals of a log's hits or of a concurrency limit's permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryTotals {
    /// The sum of their costs in units.
    pub sum: u64,
    /// When the last of them expires.
    pub until: Micros,
    /// When enough of them have expired for the demand to be allowed, if it is denied now.
    pub frees: Micros,
}

/// A cost above every limit that a double represents exactly.
const COST_ABOVE_LIMITS: u64 = (1 << 53) + 2;

impl Quota {
    /// The numbers with which a script decides whether `cost` fits.
    pub fn numbers(&self, cost: u64) -> ScriptNumbers {
        let exceeds_limit = cost > self.limit();
        let mut numbers = self.numbers_for(if exceeds_limit {
            COST_ABOVE_LIMITS
        } else {
            cost
        });

        if let ScriptNumbers::Bucket { whole, cost, .. } = &mut numbers
            && exceeds_limit
        {
            *cost = DrainTime {
                micros: whole.micros + 1,
                part: whole.part,
            };
        }
        numbers
    }

    /// The numbers with which a script refunds `cost`.
    pub fn refund_numbers(&self, cost: u64) -> ScriptNumbers {
        match self {
            Self::TokenBucket(_) | Self::LeakyBucket(_) => self.numbers_for(cost),
            _ => self.numbers_for(cost.min(AMOUNT_MAX)),
        }
    }

    fn numbers_for(&self, units: u64) -> ScriptNumbers {
        // The cap does not apply to buckets: no demand ever spent more than the cap, but the
        // backlog of a bucket can be slightly more than a full one, and a refund must cover it.
        let (limit, cost) = (self.limit(), units.min(COST_ABOVE_LIMITS));

        match self {
            Self::TokenBucket(TokenBucket { gcra })
            | Self::LeakyBucket(LeakyBucket { gcra, .. }) => ScriptNumbers::Bucket {
                whole: gcra.drain_time(limit),
                cost: gcra.drain_time(units),
                per: gcra.rate().0,
                span: gcra.span,
            },
            Self::FixedWindow(quota) => ScriptNumbers::Fixed {
                limit,
                cost,
                start: quota.start,
            },
            Self::SlidingWindow(quota) => ScriptNumbers::Sliding {
                limit,
                cost,
                length: quota.length,
            },
            Self::SlidingLog(quota) => ScriptNumbers::Log {
                limit,
                cost,
                length: quota.length,
            },
            Self::Concurrency(quota) => ScriptNumbers::Permits {
                limit,
                cost,
                length: quota.permit_timeout,
            },
        }
    }

    /// The outcome of spending `cost` from `state`; `None` when the state belongs to another
    /// algorithm.
    pub fn outcome(&self, state: CounterState, cost: u64, now: Micros) -> Option<Outcome> {
        self.spend(state, cost, now).map(|(_, outcome)| outcome)
    }
}

impl Gcra {
    /// How long `units` take to work off, capped at a time that is longer than any bucket takes.
    fn drain_time(&self, units: u64) -> DrainTime {
        let (per, period) = self.rate();
        let (micros, part) = product(units, period).divide(per);
        DrainTime {
            micros: micros.min(AMOUNT_MAX),
            part,
        }
    }
}

impl EntryTotals {
    /// The outcome of a log or a concurrency limit. It is the same for both: units spent now expire
    /// one `length` from now.
    fn outcome(self, limit: u64, length: Micros, cost: u64, now: Micros) -> Outcome {
        let verdict = if cost > limit {
            Verdict::Never
        } else if cost == 0 || cost <= limit.saturating_sub(self.sum) {
            Verdict::ALLOW
        } else {
            Verdict::Deny {
                retry_after: self.frees.since(now),
            }
        };

        let spent = if verdict.is_allowed() { cost } else { 0 };
        let until = if spent > 0 {
            self.until.max(now.after(length))
        } else {
            self.until
        };

        Outcome {
            verdict,
            limit,
            remaining: limit.saturating_sub(self.sum.saturating_add(spent)),
            reset_after: until.since(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{CLOCK_SLACK, LeakyMode, Rate};

    /// A clock that was set back slightly leaves a backlog of more than a full bucket, and a
    /// refund of everything must cover all of it.
    #[test]
    fn a_refund_of_everything_covers_every_backlog() {
        let fast = LeakyBucket::new(
            LeakyMode::Meter,
            AMOUNT_MAX,
            Rate::new(10_000_000, std::time::Duration::from_secs(1)),
        );
        let quota = Quota::from(fast.unwrap());

        let ScriptNumbers::Bucket { whole, cost, .. } = quota.refund_numbers(u64::MAX) else {
            panic!("not a bucket")
        };

        assert!(cost.micros > whole.micros + CLOCK_SLACK.get());
    }

    #[test]
    fn a_cost_above_the_limit_stays_above_it() {
        let quota = Quota::from(TokenBucket::new(5, Rate::per_second(1)).unwrap());
        let ScriptNumbers::Bucket { whole, cost, .. } = quota.numbers(6) else {
            panic!("not a bucket")
        };
        assert!(cost.micros > whole.micros);
    }
}
