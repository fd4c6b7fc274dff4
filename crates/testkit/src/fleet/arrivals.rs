//! When requests arrive, at which replica, and with what cost.

use super::plan::{Load, Plan};
use crate::dice::Dice;

/// How long one replica gets most requests.
const TURN: u64 = 300_000;

/// One request: its time, the slot of its replica, and its cost.
pub(super) type Arrival = (u64, usize, u64);

/// All requests of a run in order of time, the first at or after `start`.
pub(super) fn arrivals(plan: &Plan, dice: &mut Dice, start: u64) -> Vec<Arrival> {
    let mut all: Vec<Arrival> = (0..plan.requests)
        .map(|index| one(plan, dice, start, index))
        .collect();
    all.sort_unstable();
    all
}

fn one(plan: &Plan, dice: &mut Dice, start: u64, index: u64) -> Arrival {
    let even = plan.length * index / plan.requests;
    let anyone = usize::try_from(dice.below(plan.processes as u64)).expect("few");

    let (at, slot) = match plan.load {
        Load::Steady => (even + dice.below(plan.length / plan.requests + 1), anyone),
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
