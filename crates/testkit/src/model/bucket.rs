//! A bucket of tokens, for the token bucket and both leaky buckets: a level at a moment, as an exact fraction.

use tollgate::LeaseId;

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

#[derive(Clone, Debug)]
struct Level {
    tokens: Fraction,
    at: i128,
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

impl Bucket {
    pub(super) fn new(numbers: Numbers) -> Self {
        Self { numbers, level: None }
    }

    /// Other numbers for the same bucket: the moment at which it is full again stays.
    pub(super) fn requota(&mut self, numbers: Numbers) {
        if let Some(level) = self.level.as_mut().filter(|_| numbers != self.numbers) {
            let missing = Fraction::whole(self.numbers.capacity).minus(&level.tokens);
            let missing = self.numbers.time_for(&missing).times(numbers.per, numbers.period);
            level.tokens = Fraction::whole(numbers.capacity).minus(&missing).reduced();
        }
        self.numbers = numbers;
    }

    /// The tokens at a moment. Before the moment of the level it can be below nothing: those tokens are still to come.
    fn tokens(&self, at: i128) -> Fraction {
        let full = Fraction::whole(self.numbers.capacity);
        let Some(level) = &self.level else { return full };
        let come = Fraction::new((at - level.at) * self.numbers.per, self.numbers.period);
        level.tokens.plus(&come).min(full)
    }

    /// How long until it is full.
    fn time_to_full(&self, at: i128) -> Fraction {
        self.numbers.time_for(&Fraction::whole(self.numbers.capacity).minus(&self.tokens(at)))
    }
}

impl Counter for Bucket {
    fn see(&mut self, now: i128) {
        // Moments are compared in whole microseconds.
        if self.time_to_full(now).floor() > self.numbers.span() + SLACK {
            self.level = Some(Level { tokens: Fraction::whole(0), at: now });
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
        if self.numbers.is_queue { self.time_to_full(at).ceil() } else { 0 }
    }

    fn add(&mut self, cost: i128, now: i128, _: LeaseId) {
        self.level = Some(Level { tokens: self.tokens(now).minus(&Fraction::whole(cost)), at: now });
    }

    fn refund(&mut self, cost: i128, now: i128) {
        if self.level.is_some() {
            let full = Fraction::whole(self.numbers.capacity);
            let tokens = self.tokens(now).plus(&Fraction::whole(cost)).min(full);
            self.level = Some(Level { tokens, at: now });
        }
    }
}
