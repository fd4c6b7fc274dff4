//! When requests arrive, at which replica, and with what cost.

use tollgate::Quota;

use super::plan::{Load, Plan};
use crate::dice::Dice;

/// How long one replica gets most requests.
const TURN: u64 = 300_000;

/// One request: its time, the slot of its replica, and its cost.
pub(super) type Arrival = (u64, usize, u64);

/// All requests of a run in order of time, the first at or after `start`.
pub(super) fn arrivals(plan: &Plan, dice: &mut Dice, start: u64) -> Vec<Arrival> {
    let per_second = plan.tenths * rate(&plan.quota) / 10;
    let wanted = (per_second.saturating_mul(plan.length) / 1_000_000).clamp(20, plan.requests_max);
    let mut all: Vec<Arrival> = (0..wanted)
        .map(|index| one(plan, dice, start, index, wanted))
        .collect();
    all.sort_unstable();
    all
}

/// The approximate number of units per second that the limit allows.
fn rate(quota: &Quota) -> u64 {
    let of = |(per, period): (u64, u64)| (per * 1_000_000 / period).max(1);
    match quota {
        Quota::TokenBucket(bucket) => of(bucket.refill()),
        Quota::LeakyBucket(bucket) => of(bucket.leak()),
        other => {
            let window = other.window().map_or(1_000_000, tollgate::Micros::get);
            (other.limit() * 1_000_000 / window).max(1)
        }
    }
}

fn one(plan: &Plan, dice: &mut Dice, start: u64, index: u64, wanted: u64) -> Arrival {
    let even = plan.length * index / wanted;
    let anyone = usize::try_from(dice.below(plan.processes as u64)).expect("few");

    let (at, slot) = match plan.load {
        Load::Steady => (even + dice.below(plan.length / wanted + 1), anyone),
        Load::Bursts => (even / 700_000 * 700_000 + dice.below(3_000), anyone),
        Load::Hoarding => {
            let cycle = plan.lease_length * 12 / 5;
            (
                even / cycle * cycle + hoarding(dice, plan.lease_length),
                anyone,
            )
        }
        Load::Rotating => {
            let hot = usize::try_from(even / TURN).expect("few") % plan.processes;
            (even, if dice.chance(900) { hot } else { anyone })
        }
    };

    let limit = plan.quota.limit();
    let cost = match dice.below(100) {
        _ if plan.is_plain => 1,
        0..80 => 1,
        80..95 => dice.between(1, (limit / 8).max(1)),
        _ => dice.between(1, limit + 1),
    };

    (start + at, slot, cost)
}

/// A time in a cycle of 2.4 lengths of a lease: many requests at first, some while the lease lasts,
/// many just before it ends, and many after the store has expired it.
fn hoarding(dice: &mut Dice, length: u64) -> u64 {
    let percent = length / 100;
    match dice.below(100) {
        0..40 => dice.below(6 * percent),
        40..55 => dice.between(6 * percent, 84 * percent),
        55..80 => dice.between(84 * percent, 96 * percent),
        _ => dice.between(100 * percent, 230 * percent),
    }
}
