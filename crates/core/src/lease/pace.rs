//! How much to take, how long to keep it and how long to believe a denial.

use crate::algorithm::Quota;
use crate::time::Micros;

/// A batch is what a key is expected to need for this long.
pub(super) const HORIZON: Micros = Micros::from_millis(50);
/// Units that nobody has used for this long go back.
pub(super) const IDLE: Micros = Micros::from_millis(100);
/// The longest a lease is spent here, by this process's clock. The store counts it as out for a
/// second at least, so a clock may run a tenth too slow and still stop in time.
pub(super) const LIFE: Micros = Micros::from_millis(900);
/// What was counted here and not told to the store is told at the latest after this long.
pub(super) const MERGE: Micros = Micros::from_millis(50);
/// How often what is lying idle is looked for.
pub const SWEEP_EVERY: Micros = Micros::from_millis(25);
/// A counter of which nothing is known that matters is forgotten after this long.
pub(super) const FORGET: Micros = Micros::from_secs(1);

/// A denial is believed for this long at least: what gathers in the store meanwhile is taken by the
/// next trip, so that nothing is lost, and a key under attack is asked about that rarely.
const HOLD_LEAST: Micros = Micros::from_millis(25);
/// The longest a denial is believed: a reset, a refund or a raised limit elsewhere is noticed
/// within this time.
pub const HOLD_MOST: Micros = Micros::from_millis(500);

/// A key that needs fewer units than this in a [`HORIZON`] is asked about one request at a time.
const COLD: u64 = 4;
/// The most units held of one key.
const LOT_MAX: u64 = 1 << 20;
/// The most counters of which anything is kept here.
pub(super) const KEYS_MAX: usize = 65_536;

/// When so many units are to be had that the store says are there after `retry`. A good part of a
/// limit can be out, and comes back only once it lies idle where it is.
pub(super) fn retry(quota: &Quota, units: u64, retry: Micros) -> Micros {
    if units > quota.limit() / 2 {
        retry.max(IDLE.after(SWEEP_EVERY).after(SWEEP_EVERY))
    } else {
        retry
    }
}

/// How long to believe a denial that would end after `retry`.
pub(super) fn hold(quota: &Quota, retry: Micros) -> Micros {
    retry.clamp(hold_least(quota), HOLD_MOST)
}

/// At least this, and never so long that a good part of the limit would gather unused.
fn hold_least(quota: &Quota) -> Micros {
    let part = quota
        .window()
        .map_or(HOLD_LEAST, |window| Micros::new(window.get() / 40));
    HOLD_LEAST.min(part)
}

/// How many units a process may have admitted and not yet told the store of, where `replicas` share
/// a limit: together they stay within a tenth of it.
pub fn quantum(limit: u64, replicas: u32) -> u64 {
    (limit / (10 * u64::from(replicas))).clamp(1, LOT_MAX)
}

/// The pace at which one key's units are asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Units asked for in the stretch under way.
    asked: u64,
    /// When that began.
    since: Micros,
    /// Units in a [`HORIZON`], by the stretch before.
    before: u64,
}

impl Pace {
    #[inline]
    pub(super) fn count(&mut self, units: u64, now: Micros) {
        let elapsed = now.since(self.since);
        if elapsed >= HORIZON {
            self.turn(now, elapsed);
        }
        self.asked = self.asked.saturating_add(units);
    }

    #[cold]
    fn turn(&mut self, now: Micros, elapsed: Micros) {
        self.before = self.asked.saturating_mul(HORIZON.get()) / elapsed.get();
        (self.asked, self.since) = (0, now);
    }

    /// How many units to take for the time to come, `spent` of what was asked for being dealt with
    /// already: as many as are asked for in a [`HORIZON`], and a quarter of the limit at most, so
    /// that nobody holds it all. A window that ends sooner, `left` from now, needs less.
    pub(super) fn batch(&self, limit: u64, spent: u64, left: Micros) -> u64 {
        let needed = self.before.max(self.asked.saturating_sub(spent));
        let part = u128::from(left.min(HORIZON).get());
        let needed = u128::from(needed) * part / u128::from(HORIZON.get());
        let needed = u64::try_from(needed)
            .unwrap_or(u64::MAX)
            .min(limit / 4)
            .min(LOT_MAX);
        if needed < COLD { 0 } else { needed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Rate, TokenBucket};
    use std::time::Duration;

    fn bucket(capacity: u64, per_second: u64) -> Quota {
        TokenBucket::new(capacity, Rate::new(per_second, Duration::from_secs(1)))
            .unwrap()
            .into()
    }

    #[test]
    fn a_batch_follows_the_pace() {
        let mut pace = Pace::default();
        let at = |millis: u64| Micros::from_millis(1_000_000 + millis);
        // 2,500 a second.
        (0..1_000u64).for_each(|hit| pace.count(1, Micros::new(at(0).get() + hit * 400)));
        let batch = pace.batch(20_000, 0, Micros::MAX);
        assert!((120..=130).contains(&batch), "{batch}");
        assert_eq!(
            pace.batch(100, 0, Micros::MAX),
            25,
            "a quarter of the limit at most"
        );
        assert_eq!(
            pace.batch(20_000, 0, Micros::from_millis(5)),
            batch / 10,
            "no more than the window can use"
        );
        // Then one every second.
        pace.count(1, at(3_000));
        pace.count(1, at(4_000));
        assert_eq!(
            pace.batch(20_000, 0, Micros::MAX),
            0,
            "a key that has cooled down is asked about one by one"
        );
    }

    #[test]
    fn a_key_that_is_new_takes_nothing_in_advance() {
        let mut pace = Pace::default();
        pace.count(1, Micros::from_secs(1));
        assert_eq!(pace.batch(1_000, 1, Micros::MAX), 0);
        pace.count(7, Micros::from_secs(1));
        assert_eq!(
            pace.batch(1_000, 1, Micros::MAX),
            7,
            "the second time, as much as was asked for"
        );
    }

    #[test]
    fn a_denial_is_held_for_tens_of_milliseconds() {
        let held = |quota, retry| hold(&quota, Micros::new(retry));
        assert_eq!(held(bucket(1_000, 1_000), 1_000), Micros::from_millis(25));
        assert_eq!(
            held(bucket(10, 1), 300_000),
            Micros::from_millis(300),
            "until it can change"
        );
        assert_eq!(
            held(bucket(10, 1), 3_000_000),
            Micros::from_millis(500),
            "and no longer than is stated"
        );
        assert_eq!(
            held(bucket(100, 10_000), 100),
            Micros::new(250),
            "a fortieth of what fills the bucket"
        );
    }

    #[test]
    fn a_quantum_is_a_tenth_of_the_share() {
        assert_eq!(
            (quantum(1_000, 4), quantum(10, 4), quantum(1 << 53, 1)),
            (25, 1, 1 << 20)
        );
    }
}
