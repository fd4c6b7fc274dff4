//! The arithmetic of a bucket, shared by the token bucket and both leaky buckets.
//!
//! The state of a bucket is one moment: when the bucket will be idle (full of tokens, or drained)
//! if nothing more is spent. This is the theoretical arrival time of the generic cell rate
//! algorithm (GCRA). The distance from now to that moment is the backlog.
//!
//! With a rate of `per` units every `period` microseconds, the backlog is measured in `per`-ths of
//! a microsecond: one unit of cost adds `period` to it and one microsecond works off `per`. So all
//! values are integers and nothing is ever rounded. The moment is stored as whole microseconds and
//! a remainder in `per`-ths of one.

use super::division::{Divisor, ProductInt};
use super::key_lock::KeyLock;
use super::outcome::{CLOCK_SLACK, Outcome, Verdict};
use crate::limit_error::{AMOUNT_MAX, LimitError, validate_amount};
use crate::rate::Rate;
use crate::time::Micros;

/// The longest a bucket may take to refill from empty. With this bound the moment at which a bucket
/// is idle stays below 2^53 until the year 2155.
const SPAN_MAX: Micros = Micros::from_secs(100 * 366 * 86_400);

/// The validated parameters of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gcra {
    pub(crate) capacity: u64,
    /// The rate is `per` units every `period` microseconds, in lowest terms.
    per: Divisor,
    period: Divisor,
    /// The time to work off the backlog of the whole capacity, rounded up.
    pub(crate) span: Micros,
    /// True when every product of the computation fits into 64 bits.
    is_narrow: bool,
}

/// The moment at which a bucket is idle again: full of tokens, or drained. A bucket whose moment is
/// in the past is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketState {
    /// Whole microseconds since the epoch.
    pub at: Micros,
    /// Parts of a microsecond; the rate's `per` parts make one.
    pub part: u64,
    /// True when the bucket was in debt when the state was written: more had been charged than it
    /// holds.
    pub is_in_debt: bool,
}

impl Gcra {
    pub(crate) fn new(capacity: u64, rate: Rate) -> Result<Self, LimitError> {
        let capacity = validate_amount("capacity", capacity)?;
        let reduced = rate.reduced().ok_or(LimitError::Rate { found: rate })?;
        Self::from_reduced(capacity, reduced).ok_or(LimitError::SlowRefill { capacity, rate })
    }

    /// A bucket at a rate of `(units, microseconds)` that is in range and in lowest terms; `None`
    /// when it would take too long to refill.
    pub(super) fn from_reduced(capacity: u64, (per, period): (u64, u64)) -> Option<Self> {
        let span = u128::product(capacity, period).div_ceil(u128::from(per));
        let span = u64::try_from(span).ok().map(Micros::new)?;
        if span > SPAN_MAX {
            return None;
        }

        // The largest sum is the whole capacity on top of the longest backlog without a debt.
        let backlog = u128::product(span.after(CLOCK_SLACK).get() + 1, per);
        let largest = backlog + u128::product(capacity, period);
        Some(Self {
            capacity,
            per: Divisor::new(per),
            period: Divisor::new(period),
            span,
            is_narrow: u64::try_from(largest).is_ok(),
        })
    }

    /// The rate in lowest terms, as `(units, microseconds)`.
    pub(crate) const fn rate(&self) -> (u64, u64) {
        (self.per.get(), self.period.get())
    }

    /// Spends `cost` when it fits.
    #[inline(always)]
    pub(crate) fn apply(
        &self,
        state: BucketState,
        cost: u64,
        now: Micros,
    ) -> (BucketState, Verdict) {
        if self.is_narrow && !state.is_in_debt {
            return self.apply_in::<u64>(state, cost, now);
        }
        // In pieces, so that the usual case keeps the state in registers.
        self.apply_wide((state.at, state.part), state.is_in_debt, cost, now)
    }

    /// The outcome with this verdict and this state after it.
    #[inline(always)]
    pub(crate) fn outcome(&self, state: BucketState, verdict: Verdict, now: Micros) -> Outcome {
        if self.is_narrow && !state.is_in_debt {
            return self.outcome_in::<u64>(state, verdict, now);
        }
        self.outcome_wide((state.at, state.part), state.is_in_debt, verdict, now)
    }

    /// Converts a state last used with other parameters, under which a whole bucket took `span` to
    /// work off: a half empty bucket stays half empty. Rounds the backlog up. Returns `None` when
    /// there is nothing to convert.
    pub(crate) fn convert(
        &self,
        state: BucketState,
        span: Micros,
        now: Micros,
    ) -> Option<BucketState> {
        let ahead = state
            .at
            .since(now)
            .get()
            .saturating_add(u64::from(state.part > 0));
        if span == self.span || state.at < now || ahead == 0 || span == Micros::ZERO {
            return None;
        }

        let ahead = u128::product(ahead, self.span.get()).divide_ceil(span.get());
        if !state.is_in_debt {
            let at = now.after(Micros::new(ahead));
            return Some(BucketState {
                at,
                ..BucketState::default()
            });
        }
        let backlog = u128::product(ahead.min(SPAN_MAX.get()), self.per.get());
        Some(self.state_after(backlog, now))
    }

    /// How long `units` take to work off, as whole microseconds and `per`-ths of one.
    pub(super) fn drain_time(&self, units: u64) -> (u64, u64) {
        u128::product(units, self.period.get()).divide_by(self.per)
    }

    /// How long the units already in the bucket take to drain: the wait of the next request in a
    /// queue.
    pub(crate) fn wait(&self, state: BucketState, now: Micros) -> Micros {
        Micros::new(self.backlog::<u128>(state, now).0.divide_ceil_by(self.per))
    }

    /// What was spent and has not been worked off, in units times `scale`, rounded up.
    pub(super) fn used(&self, state: BucketState, scale: u64, now: Micros) -> u64 {
        let (backlog, _) = self.backlog::<u128>(state, now);
        (backlog * u128::from(scale)).divide_ceil_by(self.period)
    }

    /// Returns `cost` units to the bucket, at most what was spent.
    pub(crate) fn refund(&self, state: BucketState, cost: u64, now: Micros) -> BucketState {
        self.give_back(state, self.weight(cost), now)
    }

    /// How long `units` take to work off, in `per`-ths of a microsecond.
    pub(crate) fn weight(&self, units: u64) -> u128 {
        u128::product(units, self.period.get())
    }

    /// The backlog that is left at `now` of a state that was written earlier. None is left if the
    /// clock was set back since then.
    pub(super) fn backlog_left(&self, state: BucketState, now: Micros) -> u128 {
        let ahead = state.at.since(now);
        if state.at < now || ahead > self.longest(state).after(CLOCK_SLACK) {
            return 0;
        }
        u128::product(ahead.get(), self.per.get()) + u128::from(state.part)
    }

    /// Returns this much backlog to the bucket, at most all of it.
    pub(crate) fn give_back(&self, state: BucketState, returned: u128, now: Micros) -> BucketState {
        let (backlog, _) = self.backlog::<u128>(state, now);
        self.state_after(backlog.minus_or_zero(returned), now)
    }

    /// Charges `cost` whether it fits or not. The bucket owes what does not fit, up to `debt_max`
    /// units.
    pub(crate) fn charge(
        &self,
        state: BucketState,
        cost: u64,
        debt_max: u64,
        now: Micros,
    ) -> BucketState {
        let (backlog, _) = self.backlog::<u128>(state, now);
        let charged = backlog + u128::product(cost, self.period.get());
        self.state_after(charged.min(self.backlog_max(debt_max).max(backlog)), now)
    }

    /// The backlog of a bucket that owes `debt_max` units, but no more than it works off in
    /// [`SPAN_MAX`].
    fn backlog_max(&self, debt_max: u64) -> u128 {
        let units = self.capacity.saturating_add(debt_max);
        u128::product(units, self.period.get()).min(u128::product(SPAN_MAX.get(), self.per.get()))
    }

    /// How long a bucket takes to work off the longest backlog that a charge may leave.
    pub(super) fn recovery_time(&self, debt_max: u64) -> (u64, u64) {
        self.backlog_max(debt_max).divide_by(self.per)
    }

    /// Takes units until at most `remaining` are left.
    pub(crate) fn drain(&self, state: BucketState, remaining: u64, now: Micros) -> BucketState {
        let (backlog, _) = self.backlog::<u128>(state, now);
        let taken = self.capacity.saturating_sub(remaining);
        self.state_after(backlog.max(u128::product(taken, self.period.get())), now)
    }

    #[cold]
    fn apply_wide(
        &self,
        (at, part): (Micros, u64),
        is_in_debt: bool,
        cost: u64,
        now: Micros,
    ) -> (BucketState, Verdict) {
        let state = BucketState {
            at,
            part,
            is_in_debt,
        };
        self.apply_in::<u128>(state, cost, now)
    }

    #[cold]
    fn outcome_wide(
        &self,
        (at, part): (Micros, u64),
        is_in_debt: bool,
        verdict: Verdict,
        now: Micros,
    ) -> Outcome {
        let state = BucketState {
            at,
            part,
            is_in_debt,
        };
        self.outcome_in::<u128>(state, verdict, now)
    }

    #[inline(always)]
    fn apply_in<W: ProductInt>(
        &self,
        state: BucketState,
        cost: u64,
        now: Micros,
    ) -> (BucketState, Verdict) {
        let full_backlog = W::product(self.capacity, self.period.get());
        let (backlog, state) = self.backlog::<W>(state, now);
        if cost > self.capacity {
            return (state, Verdict::Never);
        }

        let wanted = backlog + W::product(cost, self.period.get());
        if wanted > full_backlog && cost > 0 {
            let retry_after = Micros::new((wanted - full_backlog).divide_ceil_by(self.per));
            return (state, Verdict::Deny { retry_after });
        }
        let spent = if cost == 0 {
            state
        } else {
            self.state_after(wanted, now)
        };
        (spent, Verdict::ALLOW)
    }

    /// How far ahead the moment of a state can be, if the clock was not set back.
    const fn longest(&self, state: BucketState) -> Micros {
        if state.is_in_debt {
            SPAN_MAX
        } else {
            self.span
        }
    }

    /// The backlog in `per`-ths of a microsecond, and the state it was read from. A moment further
    /// ahead than a full backlog plus the slack comes from before the clock was set back; the state
    /// is then replaced by a full backlog at `now`. A bucket in debt keeps its moment.
    #[inline(always)]
    fn backlog<W: ProductInt>(&self, state: BucketState, now: Micros) -> (W, BucketState) {
        if state.at < now {
            return (W::from(0), state);
        }

        let ahead = state.at.since(now);
        if ahead <= self.longest(state).after(CLOCK_SLACK) {
            let part = state.part.min(self.per.get() - 1);
            return (
                W::product(ahead.get(), self.per.get()) + W::from(part),
                state,
            );
        }

        let full_backlog = W::product(self.capacity, self.period.get());
        (full_backlog, self.state_after(full_backlog, now))
    }

    #[inline(always)]
    fn state_after<W: ProductInt>(&self, backlog: W, now: Micros) -> BucketState {
        let (micros, part) = backlog.divide_by(self.per);
        BucketState {
            at: now.after(Micros::new(micros)),
            part,
            is_in_debt: backlog > W::product(self.capacity, self.period.get()),
        }
    }

    #[inline(always)]
    fn outcome_in<W: ProductInt>(
        &self,
        state: BucketState,
        verdict: Verdict,
        now: Micros,
    ) -> Outcome {
        // The state has just been corrected, so its moment is in range.
        let (ahead, part) = if state.at < now {
            (Micros::ZERO, 0)
        } else {
            let part = state.part.min(self.per.get() - 1);
            (state.at.since(now), part)
        };
        let backlog = W::product(ahead.get(), self.per.get()) + W::from(part);
        let full_backlog = W::product(self.capacity, self.period.get());
        let unspent = full_backlog.minus_or_zero(backlog);
        let (remaining, started) = unspent.divide_by(self.period);

        // What is missing of the next unit, after what is owed.
        let more_after = if backlog > W::from(0) && verdict.is_allowed() {
            let owed = backlog.minus_or_zero(full_backlog);
            let missing = W::from(self.period.get() - started) + owed;
            Micros::new(missing.divide_ceil_by(self.per))
        } else {
            Micros::ZERO
        };

        Outcome {
            verdict,
            limit: self.capacity,
            remaining,
            reset_after: ahead.after(Micros::new(u64::from(part > 0))),
            more_after,
            lock: KeyLock::NONE,
        }
    }
}

const _: () = assert!(AMOUNT_MAX == 1 << 53, "a bucket's products fit in 128 bits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_out_of_range_is_an_error_that_names_the_range() {
        let error = Gcra::new(1, Rate::per_second(0)).unwrap_err().to_string();
        assert!(error.contains("1 per 30d"), "{error}");
    }
}
