//! The parameters of a run.

use std::time::Duration;

use tollgate::store::lease::LeaseTerms;
use tollgate::{
    Calendar, Consistency, FixedWindow, LeakyBucket, LeakyMode, Micros, Quota, Rate, SlidingWindow,
    TokenBucket,
};

use crate::dice::Dice;

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Evenly, at all replicas.
    Steady,
    /// In bursts: many at every replica at the same time, then none for a while.
    Bursts,
    /// Nearly all at one replica, and at another one every few hundred milliseconds.
    Rotating,
    /// Enough to lease many units, then few for most of a lease's duration, and many again just
    /// before its end and just after.
    Hoarding,
}

/// The faults of a run: probabilities in thousandths, or counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Lost messages, in either direction.
    pub lost: u64,
    /// Store calls that fail to be sent, which the replica notices.
    pub unsent: u64,
    /// Messages that take up to three seconds, or longer than a lease.
    pub late: u64,
    /// The number of crashes and shutdowns in a run.
    pub ends: u64,
    /// The number of pauses of up to two seconds in a run.
    pub pauses: u64,
    /// How far the speed of a clock may be off, in parts per million.
    pub drift: u64,
    /// How often the store loses all data in a run.
    pub failovers: u64,
    /// How often the key is reset in a run.
    pub resets: u64,
    /// Requests with another limit, some of which it denies.
    pub among: u64,
    /// How often another client counts units at the store, whether they fit or not.
    pub counts: u64,
}

/// The parameters of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The quota of the limit.
    pub quota: Quota,
    /// How its counters are shared.
    pub consistency: Consistency,
    /// The number of replicas at any time, and the expected number.
    pub processes: usize,
    /// How requests arrive.
    pub load: Load,
    /// The number of requests.
    pub requests: u64,
    /// The time in which they arrive, in microseconds.
    pub length: u64,
    /// The length of the leases that the load and the delays are about, in microseconds.
    pub lease_length: u64,
    /// Whether every request costs 1; otherwise up to one more than the limit.
    pub is_plain: bool,
    /// The faults.
    pub faults: Faults,
}

impl Plan {
    /// A random plan, determined by its seed.
    ///
    /// # Panics
    ///
    /// Never: all numbers that it draws are valid.
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
            counts: or_none(&mut dice, 4),
        };

        let quota = quota(&mut dice);
        let LeaseTerms { long, brief, .. } = LeaseTerms::for_quota(&quota);
        let lease_length = dice.one_of(&[long, brief]).get();
        let processes = usize::try_from(dice.between(1, 8)).expect("few");
        let load = *dice.one_of(&[
            Load::Steady,
            Load::Bursts,
            Load::Rotating,
            Load::Hoarding,
            Load::Hoarding,
        ]);
        let tenths = *dice.one_of(&[5, 10, 20, 100]);
        let length = dice.between(1_500_000, 5_000_000).max(5 * lease_length);

        Self {
            seed,
            quota,
            consistency,
            processes,
            load,
            requests: (tenths * rate(&quota) * length / 10_000_000).clamp(20, 1_500),
            length,
            lease_length,
            is_plain: dice.chance(500),
            faults,
        }
    }

    /// A run without faults, in which requests for one unit arrive evenly.
    pub fn calm(seed: u64, quota: Quota, processes: usize, requests: u64, length: u64) -> Self {
        Self {
            seed,
            quota,
            consistency: Consistency::Leased,
            processes,
            load: Load::Steady,
            requests,
            length,
            lease_length: LeaseTerms::for_quota(&quota).long.get(),
            is_plain: true,
            faults: Faults::default(),
        }
    }
}

/// The approximate number of units per second that a quota allows.
fn rate(quota: &Quota) -> u64 {
    let of = |(per, period): (u64, u64)| (per * 1_000_000 / period).max(1);
    match quota {
        Quota::TokenBucket(bucket) => of(bucket.refill()),
        Quota::LeakyBucket(bucket) => of(bucket.leak()),
        other => {
            let window = other.window().map_or(1_000_000, Micros::get);
            (other.limit() * 1_000_000 / window).max(1)
        }
    }
}

/// A random quota that supports leases.
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

    built.expect("valid numbers")
}
