//! The arithmetic of a bucket, shared by the token bucket and both leaky buckets.
//!
//! A bucket is kept as one moment: when it would be back at rest (full of tokens, or drained) if
//! nothing more came. The distance from now to that moment is the backlog. With a rate of `per`
//! units every `period` microseconds, one unit of cost weighs `period` and one microsecond works
//! off `per`, so that everything is an integer and nothing is ever rounded: the moment is kept as
//! whole microseconds and a remainder in `per`-ths of one.

use super::division::{Width, product};
use super::outcome::{Outcome, Verdict};
use super::rate::Rate;
use super::{AMOUNT_MAX, CLOCK_SLACK, amount};
use crate::limit::LimitError;
use crate::time::Micros;

/// The longest a bucket may take to refill from empty: then its moment stays below 2^53 until the
/// year 2155.
const SPAN_MAX: Micros = Micros::from_secs(100 * 366 * 86_400);

/// The numbers of a bucket, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gcra {
    pub(crate) capacity: u64,
    /// `per` units every `period` microseconds, in lowest terms.
    per: u64,
    period: u64,
    /// The time to work off a whole bucket, rounded up.
    pub(crate) span: Micros,
    /// Every product that comes up fits into 64 bits.
    is_narrow: bool,
}

/// When the bucket is at rest again: `at` and `part / per` of a microsecond. A moment in the past
/// is a bucket at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) at: Micros,
    pub(crate) part: u64,
}

impl Gcra {
    pub(crate) fn new(capacity: u64, rate: Rate) -> Result<Self, LimitError> {
        let capacity = amount("capacity", capacity)?;
        let (per, period) = rate.reduced()?;
        let span = product(capacity, period).div_ceil(u128::from(per));
        let Some(span) = u64::try_from(span)
            .ok()
            .map(Micros::new)
            .filter(|span| *span <= SPAN_MAX)
        else {
            return Err(LimitError::SlowRefill { capacity, rate });
        };
        // The largest is a whole bucket on top of the longest backlog that is taken as it is.
        let largest = product(span.after(CLOCK_SLACK).get() + 1, per) + product(capacity, period);
        Ok(Self {
            capacity,
            per,
            period,
            span,
            is_narrow: u64::try_from(largest).is_ok(),
        })
    }

    /// Units per microseconds, in lowest terms.
    pub(crate) const fn rate(&self) -> (u64, u64) {
        (self.per, self.period)
    }

    /// Spends `cost` when it fits. The state changes on a denial only where the clock has been set
    /// back since: it is pulled in to an empty bucket, which refills nothing and locks nobody out.
    #[inline(always)]
    pub(crate) fn spend(&self, rest: Rest, cost: u64, now: Micros) -> (Rest, Outcome) {
        if self.is_narrow {
            self.spend_in::<u64>(rest, cost, now)
        } else {
            self.spend_wide(rest, cost, now)
        }
    }

    /// The same bucket by these numbers when it was last used by others, under which a whole bucket
    /// took `span` to work off: half empty stays half empty. Rounded up, and `None` when there is
    /// nothing to convert.
    pub(crate) fn converted(&self, rest: Rest, span: Micros, now: Micros) -> Option<Rest> {
        let ahead = rest
            .at
            .since(now)
            .get()
            .saturating_add(u64::from(rest.part > 0));
        if span == self.span || rest.at < now || ahead == 0 || span == Micros::ZERO {
            return None;
        }
        let ahead = u128::product(ahead, self.span.get()).divide_ceil(span.get());
        Some(Rest {
            at: now.after(Micros::new(ahead)),
            part: 0,
        })
    }

    /// How long the units already in the bucket take to drain: what a queue asks the next one to
    /// wait.
    pub(crate) fn wait(&self, rest: Rest, now: Micros) -> Micros {
        Micros::new(self.backlog::<u128>(rest, now).0.divide_ceil(self.per))
    }

    /// Gives `cost` back, at most what was spent.
    pub(crate) fn refund(&self, rest: Rest, cost: u64, now: Micros) -> Rest {
        let (backlog, _) = self.backlog::<u128>(rest, now);
        self.rest_after(backlog.less(u128::product(cost, self.period)), now)
    }

    #[cold]
    fn spend_wide(&self, rest: Rest, cost: u64, now: Micros) -> (Rest, Outcome) {
        self.spend_in::<u128>(rest, cost, now)
    }

    #[inline(always)]
    fn spend_in<W: Width>(&self, rest: Rest, cost: u64, now: Micros) -> (Rest, Outcome) {
        let whole = W::product(self.capacity, self.period);
        let (backlog, rest) = self.backlog::<W>(rest, now);
        if cost > self.capacity {
            return (rest, self.outcome(Verdict::Never, backlog));
        }
        let wanted = backlog + W::product(cost, self.period);
        if wanted > whole && cost > 0 {
            let retry_after = Micros::new((wanted - whole).divide_ceil(self.per));
            return (rest, self.outcome(Verdict::Deny { retry_after }, backlog));
        }
        let spent = if cost == 0 {
            rest
        } else {
            self.rest_after(wanted, now)
        };
        (spent, self.outcome(Verdict::ALLOW, wanted))
    }

    /// What is still to be worked off, in `per`-ths of a microsecond, with the state it was read
    /// from.
    #[inline(always)]
    fn backlog<W: Width>(&self, rest: Rest, now: Micros) -> (W, Rest) {
        if rest.at < now {
            return (W::of(0), rest);
        }
        let ahead = rest.at.since(now);
        if ahead <= self.span.after(CLOCK_SLACK) {
            return (
                W::product(ahead.get(), self.per) + W::of(rest.part.min(self.per - 1)),
                rest,
            );
        }
        let whole = W::product(self.capacity, self.period);
        (whole, self.rest_after(whole, now))
    }

    #[inline(always)]
    fn rest_after<W: Width>(&self, backlog: W, now: Micros) -> Rest {
        let (micros, part) = backlog.divide(self.per);
        Rest {
            at: now.after(Micros::new(micros)),
            part,
        }
    }

    #[inline(always)]
    fn outcome<W: Width>(&self, verdict: Verdict, backlog: W) -> Outcome {
        let whole = W::product(self.capacity, self.period);
        let (remaining, _) = whole.less(backlog).divide(self.period);
        let reset_after = Micros::new(backlog.divide_ceil(self.per));
        Outcome {
            verdict,
            limit: self.capacity,
            remaining,
            reset_after,
        }
    }
}

const _: () = assert!(AMOUNT_MAX == 1 << 53, "a bucket's products fit in 128 bits");
