//! The events that are known before a run starts: requests and faults.

use super::arrivals::Arrival;
use super::events::{Event, Queue, Request};
use super::plan::Plan;
use super::world::TIMEOUT;
use crate::dice::Dice;

/// Adds all events that are known from the start to the queue.
pub(super) fn schedule(
    plan: &Plan,
    dice: &mut Dice,
    queue: &mut Queue,
    arrivals: &[Arrival],
    start: u64,
) {
    let faults = plan.faults;

    for slot in 0..plan.processes {
        queue.put(start, Event::Start(slot));
    }

    for (at, slot, cost) in arrivals {
        let has_other_limit = dice.chance(faults.among);
        let is_denied_by_other = has_other_limit && dice.chance(400);
        let request = Request {
            cost: *cost,
            has_other_limit,
            is_denied_by_other,
            waits: 0,
            deadline: at + TIMEOUT,
        };
        queue.put(*at, Event::RequestArrival(*slot, request));
    }

    let moment = |dice: &mut Dice| start + dice.below(plan.length);
    let slot = |dice: &mut Dice| usize::try_from(dice.below(plan.processes as u64)).expect("few");

    for _ in 0..faults.ends {
        let (at, slot) = (moment(dice), slot(dice));
        let end = if dice.chance(600) {
            Event::Crash(slot)
        } else {
            Event::Shutdown(slot)
        };
        queue.put(at, end);
    }

    for _ in 0..faults.pauses {
        let (at, slot) = (moment(dice), slot(dice));
        let length = dice.between(
            1_000,
            if dice.clone().chance(500) {
                100_000
            } else {
                2_000_000
            },
        );
        queue.put(at, Event::Pause(slot, length));
    }

    for _ in 0..faults.counts {
        let at = moment(dice);
        let limit = plan.quota.limit();
        let most = if dice.chance(300) {
            2 * limit
        } else {
            limit / 4
        };
        queue.put(at, Event::CountArrival(dice.between(1, most.max(1))));
    }

    for _ in 0..faults.failovers {
        let at = moment(dice);
        queue.put(at, Event::Failover);
    }
    for _ in 0..faults.resets {
        let (at, slot) = (moment(dice), slot(dice));
        queue.put(at, Event::Reset(slot));
    }
}
