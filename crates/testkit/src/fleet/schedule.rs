//! What is known of a run before it begins: who asks when, and what goes wrong when.

use super::arrivals::Arrival;
use super::events::{Event, Queue, Request};
use super::plan::Plan;
use super::world::TIMEOUT;
use crate::dice::Dice;

/// Puts everything that is known from the start into the queue.
pub(super) fn schedule(
    plan: &Plan,
    dice: &mut Dice,
    queue: &mut Queue,
    arrivals: &[Arrival],
    start: u64,
) {
    let faults = plan.faults;
    for place in 0..plan.processes {
        queue.put(start, Event::Start(place));
    }
    for (at, place, cost) in arrivals {
        let is_among = dice.chance(faults.among);
        let is_undone = is_among && dice.chance(400);
        let request = Request {
            cost: *cost,
            is_among,
            is_undone,
            waits: 0,
            deadline: at + TIMEOUT,
        };
        queue.put(*at, Event::Arrive(*place, request));
    }
    let moment = |dice: &mut Dice| start + dice.below(plan.length);
    let place = |dice: &mut Dice| usize::try_from(dice.below(plan.processes as u64)).expect("few");
    for _ in 0..faults.ends {
        let (at, place) = (moment(dice), place(dice));
        let end = if dice.chance(600) {
            Event::Crash(place)
        } else {
            Event::Leave(place)
        };
        queue.put(at, end);
    }
    for _ in 0..faults.pauses {
        let (at, place) = (moment(dice), place(dice));
        let length = dice.between(
            1_000,
            if dice.clone().chance(500) {
                100_000
            } else {
                2_000_000
            },
        );
        queue.put(at, Event::Pause(place, length));
    }
    for _ in 0..faults.failovers {
        let at = moment(dice);
        queue.put(at, Event::Failover);
    }
    for _ in 0..faults.resets {
        let (at, place) = (moment(dice), place(dice));
        queue.put(at, Event::Reset(place));
    }
}
