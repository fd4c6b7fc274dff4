//! What a store elsewhere needs to know of a quota.
//!
//! A script decides by a few [`Numbers`] and additions alone, and reports the state it [`CounterState`];
//! the outcome is then made here, by the same arithmetic as for the embedded store. So both give
//! the same answers, and a script stays small.

mod lending;

pub use lending::Lending;

use super::division::{Width, product};
use super::{AMOUNT_MAX, Gcra, LeakyBucket, Outcome, Quota, TokenBucket, Verdict, WindowStart};
use crate::time::Micros;

/// A length of time to a fraction of a microsecond: whole ones, and parts of which the rate's `per`
/// make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Whole microseconds.
    pub micros: u64,
    /// Parts of one.
    pub part: u64,
}

/// The numbers by which a check is decided. A double holds each of them exactly, and a cost
/// that is more than the limit stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// A token bucket or either leaky bucket.
    Bucket {
        /// What a full backlog takes to work off.
        whole: Weight,
        /// What the check adds to the backlog.
        cost: Weight,
        /// Parts to a microsecond.
        per: u64,
        /// `whole` in microseconds, rounded up.
        span: Micros,
    },
    /// A fixed window.
    Fixed {
        /// The most that passes.
        limit: u64,
        /// What the check costs.
        cost: u64,
        /// When windows begin and end.
        start: WindowStart,
    },
    /// A sliding window counter.
    Sliding {
        /// The most that passes.
        limit: u64,
        /// What the check costs.
        cost: u64,
        /// The window's length.
        length: Micros,
    },
    /// A sliding window log.
    Log {
        /// The most that passes.
        limit: u64,
        /// What the check costs.
        cost: u64,
        /// The window's length.
        length: Micros,
    },
    /// A concurrency limit.
    Permits {
        /// The most in flight.
        limit: u64,
        /// What the check costs.
        cost: u64,
        /// How long a holder keeps its place.
        length: Micros,
    },
}

/// The state of a counter before a check, mended where the clock was set back since. It may still
/// hold what has run out by the moment of the decision. A counter that nobody has used is all
/// zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterState {
    /// When the bucket is at rest again.
    Bucket {
        /// Whole microseconds since the epoch.
        at: Micros,
        /// Parts of one.
        part: u64,
    },
    /// What is used of the window under way.
    Fixed {
        /// Units.
        count: u64,
        /// When it ends.
        ends: Micros,
    },
    /// The window under way and the one before it.
    Sliding {
        /// Units in the one under way.
        current: u64,
        /// Units in the one before.
        previous: u64,
        /// When the one under way began.
        start: Micros,
    },
    /// The hits of a log, or the leases.
    Held(PermitCounts),
}

/// What a log or leases hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitCounts {
    /// Units.
    pub sum: u64,
    /// When the last of them runs out.
    pub until: Micros,
    /// When enough of them have run out for the check to pass, if it does not now.
    pub frees: Micros,
}

/// Beyond every limit, and exact as a double.
const TOO_MUCH: u64 = (1 << 53) + 2;

impl Quota {
    /// The numbers by which a script decides about `cost`.
    pub fn numbers(&self, cost: u64) -> Numbers {
        let is_too_much = cost > self.limit();
        let mut numbers = self.numbers_of(if is_too_much { TOO_MUCH } else { cost });
        if let Numbers::Bucket { whole, cost, .. } = &mut numbers
            && is_too_much
        {
            *cost = Weight {
                micros: whole.micros + 1,
                part: whole.part,
            };
        }
        numbers
    }

    /// The numbers by which a script gives `cost` back.
    pub fn refund_numbers(&self, cost: u64) -> Numbers {
        match self {
            Self::TokenBucket(_) | Self::LeakyBucket(_) => self.numbers_of(cost),
            _ => self.numbers_of(cost.min(AMOUNT_MAX)),
        }
    }

    fn numbers_of(&self, units: u64) -> Numbers {
        // No check ever took more than this, but the backlog of a bucket can be slightly more than
        // a whole one.
        let (limit, cost) = (self.limit(), units.min(TOO_MUCH));
        match self {
            Self::TokenBucket(TokenBucket { gcra })
            | Self::LeakyBucket(LeakyBucket { gcra, .. }) => {
                let (whole, cost) = (gcra.weight(limit), gcra.weight(units));
                Numbers::Bucket {
                    whole,
                    cost,
                    per: gcra.rate().0,
                    span: gcra.span,
                }
            }
            Self::FixedWindow(quota) => Numbers::Fixed {
                limit,
                cost,
                start: quota.start,
            },
            Self::SlidingWindow(quota) => Numbers::Sliding {
                limit,
                cost,
                length: quota.length,
            },
            Self::SlidingLog(quota) => Numbers::Log {
                limit,
                cost,
                length: quota.length,
            },
            Self::Concurrency(quota) => Numbers::Permits {
                limit,
                cost,
                length: quota.permit_timeout,
            },
        }
    }

    /// What the limit says to `cost`, by the state that was seen; `None` when that is the state of
    /// another algorithm.
    pub fn outcome(&self, seen: CounterState, cost: u64, now: Micros) -> Option<Outcome> {
        self.step(seen, cost, now).map(|(_, outcome)| outcome)
    }
}

impl Gcra {
    /// What these units take to work off, at most longer than any bucket takes.
    fn weight(&self, units: u64) -> Weight {
        let (per, period) = self.rate();
        let (micros, part) = product(units, period).divide(per);
        Weight {
            micros: micros.min(AMOUNT_MAX),
            part,
        }
    }
}

impl PermitCounts {
    /// A log and leases answer alike: what is taken now runs out a length from now.
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
        let taken = if verdict.is_allowed() { cost } else { 0 };
        let until = if taken > 0 {
            self.until.max(now.after(length))
        } else {
            self.until
        };
        Outcome {
            verdict,
            limit,
            remaining: limit.saturating_sub(self.sum.saturating_add(taken)),
            reset_after: until.since(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{CLOCK_SLACK, LeakyMode, Rate};

    /// A clock that was slightly set back leaves a backlog of more than a whole bucket, and a
    /// refund of everything must take all of it.
    #[test]
    fn a_refund_of_everything_outweighs_every_backlog() {
        let fast = LeakyBucket::new(
            LeakyMode::Meter,
            AMOUNT_MAX,
            Rate::new(10_000_000, std::time::Duration::from_secs(1)),
        );
        let quota = Quota::from(fast.unwrap());
        let Numbers::Bucket { whole, cost, .. } = quota.refund_numbers(u64::MAX) else {
            panic!("not a bucket")
        };
        assert!(cost.micros > whole.micros + CLOCK_SLACK.get());
    }

    #[test]
    fn what_is_too_much_stays_so() {
        let quota = Quota::from(TokenBucket::new(5, Rate::per_second(1)).unwrap());
        let Numbers::Bucket { whole, cost, .. } = quota.numbers(6) else {
            panic!("not a bucket")
        };
        assert!(cost.micros > whole.micros);
    }
}
