//! The numbers with which a remote store's script decides, lends and takes back.

use crate::algorithm::fixed_window::WindowStart;
use crate::algorithm::gcra::Gcra;
use crate::algorithm::leaky_bucket::LeakyBucket;
use crate::algorithm::quota::Quota;
use crate::algorithm::token_bucket::TokenBucket;
use crate::limit_error::{AMOUNT_MAX, IN_FLIGHT_MAX};
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

/// An amount in the measure of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterAmount {
    /// For a bucket, the time that it takes to work off the units.
    Time(DrainTime),
    /// For all others, the units.
    Units(u64),
}

/// The numbers with which a script lends units and takes them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LendingNumbers {
    /// The returned units, in the measure of the counter: for a bucket the time it takes to work
    /// them off, for a window the units themselves (in `micros`).
    pub back: DrainTime,
    /// How many microseconds a bucket takes to refill its rate's `per` units; 1 for a window.
    pub period: u64,
}

/// A cost above every limit that a double represents exactly.
const COST_ABOVE_LIMITS: u64 = (1 << 53) + 2;

/// A number of units that a double represents exactly: one above every limit if it is larger than
/// that.
const fn exact(units: u64) -> u64 {
    if units > AMOUNT_MAX {
        COST_ABOVE_LIMITS
    } else {
        units
    }
}

impl Quota {
    /// The numbers with which a script decides whether `cost` fits.
    pub fn numbers(&self, cost: u64) -> ScriptNumbers {
        self.numbers_for(if cost > self.limit() {
            COST_ABOVE_LIMITS
        } else {
            cost
        })
    }

    /// The numbers with which a script counts `cost`, whether it fits or not.
    pub fn count_numbers(&self, cost: u64) -> ScriptNumbers {
        self.numbers_for(match self.bucket() {
            Some(_) => cost,
            None => exact(cost),
        })
    }

    /// `units` in the measure of the counter.
    pub fn amount(&self, units: u64) -> CounterAmount {
        match self.bucket() {
            Some(gcra) => CounterAmount::Time(DrainTime::new(gcra, units)),
            None => CounterAmount::Units(exact(units)),
        }
    }

    /// The most that a counter which may owe `debt_max` units can hold.
    pub fn amount_max(&self, debt_max: u64) -> CounterAmount {
        if let Some(gcra) = self.bucket() {
            let (micros, part) = gcra.recovery_time(debt_max);
            return CounterAmount::Time(DrainTime { micros, part });
        }

        let most = self.limit().saturating_add(debt_max);
        CounterAmount::Units(match self {
            Self::Concurrency(_) => most.min(IN_FLIGHT_MAX),
            _ => most.min(AMOUNT_MAX),
        })
    }

    /// The numbers with which a script refunds `cost`.
    pub fn refund_numbers(&self, cost: u64) -> ScriptNumbers {
        // The cap does not apply to buckets: no demand ever spent more than the cap, but the
        // backlog of a bucket can be slightly more than a full one, and a refund must cover it.
        self.numbers_for(match self.bucket() {
            Some(_) => cost,
            None => cost.min(AMOUNT_MAX),
        })
    }

    fn numbers_for(&self, cost: u64) -> ScriptNumbers {
        let limit = self.limit();
        match self {
            Self::TokenBucket(TokenBucket { gcra })
            | Self::LeakyBucket(LeakyBucket { gcra, .. }) => ScriptNumbers::Bucket {
                whole: DrainTime::new(gcra, limit),
                cost: DrainTime::new(gcra, cost),
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

    /// The numbers with which a script takes `returned` units back and lends others.
    pub fn lending(&self, returned: u64) -> LendingNumbers {
        let units = DrainTime {
            micros: returned,
            part: 0,
        };
        let (back, period) = self.bucket().map_or((units, 1), |gcra| {
            (DrainTime::new(gcra, returned), gcra.rate().1)
        });
        LendingNumbers { back, period }
    }

    /// How long a bucket takes to refill `units`, rounded up; `None` for other algorithms.
    pub(crate) fn refill_time(&self, units: u64) -> Option<Micros> {
        let DrainTime { micros, part } = DrainTime::new(self.bucket()?, units);
        Some(Micros::new(micros + u64::from(part > 0)))
    }
}

impl DrainTime {
    /// How long `units` take to work off, capped at a time that is longer than any bucket takes.
    fn new(gcra: &Gcra, units: u64) -> Self {
        let (micros, part) = gcra.drain_time(units);
        Self {
            micros: micros.min(AMOUNT_MAX),
            part,
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
