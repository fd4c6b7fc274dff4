//! What a run is made of.

use std::time::Duration;

use tollgate::{
    Calendar, Consistency, FixedWindow, LeakyBucket, LeakyMode, Quota, Rate, SlidingWindow,
    TokenBucket,
};

use crate::dice::Dice;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Evenly, to anyone.
    Steady,
    /// Everyone gets many at the same moment, then for a while nobody any.
    Bursts,
    /// Nearly all to one process, another every few hundred milliseconds.
    Rotating,
    /// Enough to be lent much, little for most of a lease's life, and much again just before its
    /// end and just after.
    Hoarding,
}

/// What goes wrong, so often in a thousand or not at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Messages lost before the store, and after it.
    pub lost: u64,
    /// Trips that never leave, and are known not to.
    pub unsent: u64,
    /// Messages that take up to three seconds.
    pub late: u64,
    /// Crashes, departures and stops in a run.
    pub ends: u64,
    /// Stops for up to two seconds in a run.
    pub pauses: u64,
    /// How far a clock may be off its pace, in parts of a million.
    pub drift: u64,
    /// Times that the store forgets everything, in a run.
    pub failovers: u64,
    /// Times that the key is reset, in a run.
    pub resets: u64,
    /// Requests about another limit too, and those of them that it refuses.
    pub among: u64,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// From which everything random follows.
    pub seed: u64,
    /// The limit.
    pub quota: Quota,
    /// How its counters are shared.
    pub consistency: Consistency,
    /// Processes at a time, and how many are expected.
    pub processes: usize,
    /// How requests come.
    pub load: Load,
    /// Offered load in tenths of what the limit lets through.
    pub tenths: u64,
    /// Requests, at most.
    pub requests_max: u64,
    /// The longest run, in microseconds.
    pub length: u64,
    /// Every request costs 1; otherwise anything up to one more than the limit.
    pub is_plain: bool,
    /// What goes wrong.
    pub faults: Faults,
}

impl Plan {
    /// Any plan, by its seed.
    ///
    /// # Panics
    ///
    /// Never: all numbers that it draws are right.
    pub fn drawn(seed: u64, consistency: Consistency) -> Self {
        let mut dice = Dice::new(seed);
        let or_none = |dice: &mut Dice, value: u64| if dice.chance(600) { value } else { 0 };
        let faults = Faults {
            lost: or_none(&mut dice, 80),
            unsent: or_none(&mut dice, 40),
            late: or_none(&mut dice, 50),
            ends: or_none(&mut dice, 4),
            pauses: or_none(&mut dice, 4),
            drift: or_none(&mut dice, 50_000),
            failovers: u64::from(dice.chance(100)),
            resets: u64::from(dice.chance(100)),
            among: or_none(&mut dice, 200),
        };
        Self {
            seed,
            quota: quota(&mut dice),
            consistency,
            processes: usize::try_from(dice.between(1, 8)).expect("few"),
            load: *dice.one_of(&[
                Load::Steady,
                Load::Bursts,
                Load::Rotating,
                Load::Hoarding,
                Load::Hoarding,
            ]),
            tenths: *dice.one_of(&[5, 10, 20, 100]),
            requests_max: 1_500,
            length: dice.between(1_500_000, 5_000_000),
            is_plain: dice.chance(500),
            faults,
        }
    }

    /// A run in which nothing goes wrong.
    pub fn calm(seed: u64, quota: Quota, processes: usize, tenths: u64) -> Self {
        Self {
            seed,
            quota,
            consistency: Consistency::Leased,
            processes,
            load: Load::Steady,
            tenths,
            requests_max: 400_000,
            length: 10_000_000,
            is_plain: true,
            faults: Faults::default(),
        }
    }
}

/// Some limit of which batches are taken.
fn quota(dice: &mut Dice) -> Quota {
    let limit = *dice.one_of(&[4, 16, 20, 50, 100, 200, 1_000]);
    let rate = Rate::new(
        *dice.one_of(&[1, 7, 20, 100, 300, 1_000]),
        Duration::from_secs(1),
    );
    let window = Duration::from_millis(*dice.one_of(&[100, 400, 1_000, 2_500]));
    let built = match dice.below(6) {
        0 | 1 => TokenBucket::new(limit, rate).map(Quota::from),
        2 => LeakyBucket::new(LeakyMode::Meter, limit, rate).map(Quota::from),
        3 => FixedWindow::new(limit, window).map(Quota::from),
        4 => FixedWindow::aligned(limit, Calendar::Second).map(Quota::from),
        _ => SlidingWindow::new(limit, window).map(Quota::from),
    };
    built.expect("right numbers")
}
