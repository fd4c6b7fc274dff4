//! A token bucket, also used for both leaky buckets: a level at a point in time, as an exact
//! fraction.

use tollgate::PermitId;

use super::fraction::Fraction;
use super::{CounterModel, SLACK};

#[derive(Clone, Debug)]
pub(super) struct BucketCounter {
    pub(super) numbers: BucketNumbers,
    /// `None` if nothing was ever taken.
    level: Option<BucketLevel>,
    /// The least time to full since each reservation was made, as far as it is known: from when
    /// reservations or refunds changed the bucket.
    lows: Vec<Fraction>,
    /// The level when the lows were last updated.
    noted: Option<Box<BucketLevel>>,
}

/// `per` tokens every `period` microseconds, up to `capacity`. A queue makes admitted requests
/// wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketNumbers {
    pub(super) capacity: i128,
    pub(super) per: i128,
    pub(super) period: i128,
    pub(super) is_queue: bool,
}

/// The number of tokens at a point in time, with the quota of that time.
#[derive(Clone, Debug)]
struct BucketLevel {
    tokens: Fraction,
    at: i128,
    numbers: BucketNumbers,
    /// Whether the bucket owed tokens at that time. Then a clock that is set back changes nothing.
    is_in_debt: bool,
}

/// A bucket owes at most what it refills in this time: 100 years.
const RECOVERY_MAX: i128 = 100 * 366 * 86_400 * 1_000_000;

impl BucketNumbers {
    /// How long it takes to refill this many tokens.
    fn time_for(&self, tokens: &Fraction) -> Fraction {
        tokens.times(self.period, self.per)
    }

    /// How long an empty bucket takes to fill, in whole microseconds.
    fn span(&self) -> i128 {
        self.time_for(&Fraction::whole(self.capacity)).ceil()
    }
}

impl BucketLevel {
    /// Negative before the time of the level: those tokens are still to be refilled.
    fn tokens(&self, at: i128) -> Fraction {
        let come = Fraction::new((at - self.at) * self.numbers.per, self.numbers.period);
        self.tokens
            .plus(&come)
            .min(Fraction::whole(self.numbers.capacity))
    }

    /// How long until the bucket is full.
    fn time_to_full(&self, at: i128) -> Fraction {
        let missing = Fraction::whole(self.numbers.capacity).minus(&self.tokens(at));
        self.numbers.time_for(&missing)
    }

    /// The same bucket with another quota, `time_to_full` from full at this time.
    fn by(numbers: BucketNumbers, time_to_full: &Fraction, at: i128) -> Self {
        let missing = time_to_full.times(numbers.per, numbers.period);
        let tokens = Fraction::whole(numbers.capacity).minus(&missing).reduced();
        Self::new(tokens, at, numbers)
    }

    fn new(tokens: Fraction, at: i128, numbers: BucketNumbers) -> Self {
        Self {
            is_in_debt: tokens < Fraction::whole(0),
            tokens,
            at,
            numbers,
        }
    }
}

impl BucketCounter {
    pub(super) fn new(numbers: BucketNumbers) -> Self {
        Self {
            numbers,
            level: None,
            lows: Vec::new(),
            noted: None,
        }
    }

    /// Updates the lows: nothing but refilling happened since the level was noted, or more was
    /// taken. A level of another quota, or from before the clock was set back, says nothing.
    fn observe(&mut self, now: i128) {
        let scale = |numbers: &BucketNumbers| (numbers.per, numbers.span());
        let left = self.noted.as_ref().and_then(|level| {
            let time_to_full = level.time_to_full(now);
            let longest = if level.is_in_debt {
                RECOVERY_MAX
            } else {
                self.numbers.span()
            };
            let is_known = scale(&level.numbers) == scale(&self.numbers)
                && time_to_full.floor() <= longest + SLACK;
            is_known.then_some(time_to_full)
        });
        let low = left.unwrap_or_else(|| Fraction::whole(0));
        for other in &mut self.lows {
            *other = other.clone().min(low.clone());
        }
    }

    pub(super) fn tokens(&self, at: i128) -> Fraction {
        match &self.level {
            Some(level) if level.numbers == self.numbers => level.tokens(at),
            // A level with another quota was full when it was last updated, otherwise it would have
            // been converted.
            _ => Fraction::whole(self.numbers.capacity),
        }
    }

    fn time_to_full(&self, at: i128) -> Fraction {
        self.numbers
            .time_for(&Fraction::whole(self.numbers.capacity).minus(&self.tokens(at)))
    }

    /// Applies a new quota to the same bucket. A half-empty bucket stays half empty, so the time
    /// until it is full changes in proportion to that of the whole bucket, in whole microseconds
    /// and rounded up.
    fn convert(&mut self, now: i128) {
        let Some(level) = self
            .level
            .as_ref()
            .filter(|level| level.numbers != self.numbers)
        else {
            return;
        };

        let (was, is) = (level.numbers.span(), self.numbers.span());
        let time_to_full = level.time_to_full(now);
        let was_in_debt = level.is_in_debt;

        let mut converted = if was == is {
            BucketLevel::by(self.numbers, &level.time_to_full(level.at), level.at)
        } else if time_to_full.ceil() > 0 {
            let scaled = Fraction::new(time_to_full.ceil() * is, was).ceil();
            let scaled = if was_in_debt {
                scaled.min(RECOVERY_MAX)
            } else {
                scaled
            };
            BucketLevel::by(self.numbers, &Fraction::whole(scaled), now)
        } else {
            return;
        };
        converted.is_in_debt = was_in_debt && (was == is || converted.is_in_debt);
        self.level = Some(converted);
    }
}

impl CounterModel for BucketCounter {
    fn update(&mut self, now: i128) {
        self.convert(now);
        let is_in_debt = self.level.as_ref().is_some_and(|level| level.is_in_debt);
        let longest = if is_in_debt {
            RECOVERY_MAX
        } else {
            self.numbers.span()
        };
        // Times are compared in whole microseconds.
        if self.time_to_full(now).floor() > longest + SLACK {
            self.level = Some(BucketLevel::new(Fraction::whole(0), now, self.numbers));
        }
    }

    fn fits(&self, cost: i128, at: i128) -> bool {
        self.tokens(at) >= Fraction::whole(cost)
    }

    fn remaining(&self, at: i128) -> i128 {
        self.tokens(at).floor()
    }

    fn is_fresh(&self, at: i128) -> bool {
        self.tokens(at) == Fraction::whole(self.numbers.capacity)
    }

    fn wait(&self, at: i128) -> i128 {
        if self.numbers.is_queue {
            self.time_to_full(at).ceil()
        } else {
            0
        }
    }

    fn add(&mut self, cost: i128, now: i128, _: PermitId) {
        let tokens = self.tokens(now).minus(&Fraction::whole(cost));
        self.level = Some(BucketLevel::new(tokens, now, self.numbers));
    }

    fn refund(&mut self, cost: i128, now: i128) {
        if self.level.is_some() {
            let full = Fraction::whole(self.numbers.capacity);
            let tokens = self.tokens(now).plus(&Fraction::whole(cost)).min(full);
            self.level = Some(BucketLevel::new(tokens, now, self.numbers));
        }
    }

    fn count(&mut self, cost: i128, debt_max: i128, now: i128, _: PermitId) {
        let BucketNumbers {
            capacity,
            per,
            period,
            ..
        } = self.numbers;
        let recovered = Fraction::new(RECOVERY_MAX * per, period);
        let least = Fraction::whole(capacity)
            .minus(&recovered)
            .max(Fraction::whole(-debt_max));

        let before = self.tokens(now);
        let tokens = before.minus(&Fraction::whole(cost)).max(least.min(before));
        self.level = Some(BucketLevel::new(tokens, now, self.numbers));
    }

    fn charged_in(&self) -> i128 {
        0
    }

    fn reserve(&mut self, now: i128) -> i128 {
        self.note_change(now);
        self.lows.push(self.time_to_full(now));
        self.lows.len() as i128 - 1
    }

    fn note_change(&mut self, now: i128) {
        self.observe(now);
        self.noted = self.level.clone().map(Box::new);
    }

    /// Returns at most what was missing all the time since the reservation.
    fn give_back(&mut self, units: i128, number: i128, now: i128) {
        self.observe(now);
        let number = usize::try_from(number).expect("a bucket counts its reservations");
        let returned = self.numbers.time_for(&Fraction::whole(units));
        let returned = returned.min(self.lows[number].clone());

        for low in &mut self.lows[number..] {
            *low = low.minus(&returned).reduced();
        }
        let low = self.lows[number].clone();
        for earlier in &mut self.lows[..number] {
            *earlier = earlier.clone().min(low.clone());
        }

        let time_to_full = self.time_to_full(now).minus(&returned);
        let time_to_full = time_to_full.max(Fraction::whole(0));
        self.level = Some(BucketLevel::by(self.numbers, &time_to_full, now));
        self.noted = self.level.clone().map(Box::new);
    }
}
