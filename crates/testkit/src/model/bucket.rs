//! A bucket of tokens, for the token bucket and both leaky buckets: a level at a moment, as an
//! exact fraction.

use tollgate::PermitId;

use super::fraction::Fraction;
use super::{Counter, SLACK};

#[derive(Clone, Debug)]
pub(super) struct Bucket {
    pub(super) numbers: Numbers,
    /// `None` when nothing was ever taken.
    level: Option<Level>,
}

/// `per` tokens every `period` microseconds, up to `capacity`. A queue makes those it admits wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) capacity: i128,
    pub(super) per: i128,
    pub(super) period: i128,
    pub(super) is_queue: bool,
}

/// So many tokens at a moment, by the numbers of that time.
#[derive(Clone, Debug)]
struct Level {
    tokens: Fraction,
    at: i128,
    numbers: Numbers,
}

impl Numbers {
    /// How long so many tokens take to come.
    fn time_for(&self, tokens: &Fraction) -> Fraction {
        tokens.times(self.period, self.per)
    }

    /// How long an empty bucket takes to fill, in whole microseconds.
    fn span(&self) -> i128 {
        self.time_for(&Fraction::whole(self.capacity)).ceil()
    }
}

impl Level {
    /// Below nothing before the moment of the level: those tokens are still to come.
    fn tokens(&self, at: i128) -> Fraction {
        let come = Fraction::new((at - self.at) * self.numbers.per, self.numbers.period);
        self.tokens
            .plus(&come)
            .min(Fraction::whole(self.numbers.capacity))
    }

    /// How long until it is full.
    fn time_to_full(&self, at: i128) -> Fraction {
        let missing = Fraction::whole(self.numbers.capacity).minus(&self.tokens(at));
        self.numbers.time_for(&missing)
    }

    /// The same bucket by other numbers, `time_to_full` from full at this moment.
    fn by(numbers: Numbers, time_to_full: &Fraction, at: i128) -> Self {
        let missing = time_to_full.times(numbers.per, numbers.period);
        let tokens = Fraction::whole(numbers.capacity).minus(&missing).reduced();
        Self {
            tokens,
            at,
            numbers,
        }
    }
}

impl Bucket {
    pub(super) fn new(numbers: Numbers) -> Self {
        Self {
            numbers,
            level: None,
        }
    }

    fn tokens(&self, at: i128) -> Fraction {
        match &self.level {
            Some(level) if level.numbers == self.numbers => level.tokens(at),
            // A level by other numbers was full when it was last seen, else it would have been
            // converted.
            _ => Fraction::whole(self.numbers.capacity),
        }
    }

    fn time_to_full(&self, at: i128) -> Fraction {
        self.numbers
            .time_for(&Fraction::whole(self.numbers.capacity).minus(&self.tokens(at)))
    }

    /// Other numbers for the same bucket: half empty stays half empty, so that the time until it is
    /// full grows or shrinks as that of the whole bucket does, in whole microseconds and rounded
    /// up.
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
        if was == is {
            self.level = Some(Level::by(
                self.numbers,
                &level.time_to_full(level.at),
                level.at,
            ));
        } else if time_to_full.ceil() > 0 {
            let scaled = Fraction::new(time_to_full.ceil() * is, was).ceil();
            self.level = Some(Level::by(self.numbers, &Fraction::whole(scaled), now));
        }
    }
}

impl Counter for Bucket {
    fn see(&mut self, now: i128) {
        self.convert(now);
        // Moments are compared in whole microseconds.
        if self.time_to_full(now).floor() > self.numbers.span() + SLACK {
            self.level = Some(Level {
                tokens: Fraction::whole(0),
                at: now,
                numbers: self.numbers,
            });
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
        self.level = Some(Level {
            tokens,
            at: now,
            numbers: self.numbers,
        });
    }

    fn refund(&mut self, cost: i128, now: i128) {
        if self.level.is_some() {
            let full = Fraction::whole(self.numbers.capacity);
            let tokens = self.tokens(now).plus(&Fraction::whole(cost)).min(full);
            self.level = Some(Level {
                tokens,
                at: now,
                numbers: self.numbers,
            });
        }
    }
}
