//! Which request is due when, at which replica. Nothing here knows of answers: the load does not
//! wait for them.

use super::limits::SECOND_US;
use super::plan::{Case, Cell};
use crate::random::Random;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shot {
    pub(super) at_us: u64,
    pub(super) replica: usize,
    pub(super) key: u32,
    pub(super) cost: u32,
}

/// How long a replica is the hot one.
const TURN_US: u64 = 200_000;
/// How far before and behind an edge requests come.
const NEAR_EDGE_US: u64 = 100_000;
const KEYS: u32 = 1_000;
/// How often somebody asks for everything, and how long before somebody asks for more.
const LARGE_EVERY_US: u64 = 500_000;
const LARGER_AFTER_US: u64 = 250_000;
/// Around a request for everything nobody asks for less: it passes if everything is there, whoever
/// is a bit faster, and if replicas that keep units give them back in time.
const QUIET_BEFORE_US: u64 = 200_000;
const QUIET_AFTER_US: u64 = 20_000;

/// The requests of a cell in the order of time. The store's clock tells where windows have their
/// edges.
pub(super) fn shots(cell: &Cell, store_us: u64) -> Vec<Shot> {
    let mut random = Random::new(0x5EED);
    let mut shots = match cell.case {
        Case::Cold => at_once(cell),
        Case::Edge => around_edges(cell, store_us, &mut random),
        _ => evenly(cell, &mut random),
    };
    match cell.case {
        Case::Rotating => shots
            .iter_mut()
            .for_each(|shot| shot.replica = turn(shot.at_us, cell.replicas)),
        Case::Killed => spare(&mut shots, cell),
        Case::Zipf => spread_over_keys(&mut shots, &mut random),
        Case::Costs => {
            shots.retain(|shot| {
                (QUIET_AFTER_US..LARGE_EVERY_US - QUIET_BEFORE_US)
                    .contains(&(shot.at_us % LARGE_EVERY_US))
            });
            shots.extend(large(cell));
        }
        _ => {}
    }
    shots.sort_by_key(|shot| shot.at_us);
    shots
}

/// Who is killed, of several.
pub(super) const KILLED: usize = 0;

/// When something happens to replicas or store.
pub(super) fn middle_us(cell: &Cell) -> u64 {
    cell.length_ms * 1_000 / 2
}

fn shot(at_us: u64, index: u64, cell: &Cell) -> Shot {
    let replicas = u64::try_from(cell.replicas).unwrap_or(1).max(1);
    let replica = usize::try_from(index % replicas).unwrap_or(0);
    Shot {
        at_us,
        replica,
        key: 0,
        cost: 1,
    }
}

/// Each somewhere in its own part of the time, to one replica after the other.
fn evenly(cell: &Cell, random: &mut Random) -> Vec<Shot> {
    let length_us = cell.length_ms * 1_000;
    let count = scaled(cell.limit.per_s() * cell.length_ms, cell.load / 1_000.0);
    spread(count, 0, length_us, random)
        .map(|(index, at_us)| shot(at_us, index, cell))
        .collect()
}

fn at_once(cell: &Cell) -> Vec<Shot> {
    (0..scaled(cell.limit.capacity(), cell.load))
        .map(|index| shot(0, index, cell))
        .collect()
}

/// So many before every edge as after it, within a short time.
fn around_edges(cell: &Cell, store_us: u64, random: &mut Random) -> Vec<Shot> {
    let count = scaled(cell.limit.capacity(), cell.load);
    let into_window = store_us % SECOND_US;
    // The first edge that is not too near.
    let first_us = if into_window + NEAR_EDGE_US < SECOND_US {
        SECOND_US - into_window
    } else {
        2 * SECOND_US - into_window
    };
    let mut shots = Vec::new();
    for edge in 0..(cell.length_ms * 1_000 / SECOND_US).max(1) {
        let start_us = first_us + edge * SECOND_US - NEAR_EDGE_US;
        let around = spread(2 * count, start_us, 2 * NEAR_EDGE_US, random);
        shots.extend(around.map(|(index, at_us)| shot(at_us, index, cell)));
    }
    shots
}

fn turn(at_us: u64, replicas: usize) -> usize {
    usize::try_from(at_us / TURN_US).unwrap_or(0) % replicas.max(1)
}

/// Once a replica is dead, its part goes to the others, as a load balancer would have it.
fn spare(shots: &mut [Shot], cell: &Cell) {
    let survivors = cell.replicas.saturating_sub(1);
    let is_lost = |shot: &&mut Shot| shot.at_us >= middle_us(cell) && shot.replica == KILLED;
    if survivors > 0 {
        let lost = shots.iter_mut().filter(is_lost);
        lost.enumerate()
            .for_each(|(index, shot)| shot.replica = 1 + index % survivors);
    }
}

/// The second key half as often as the first, the third a third as often, and so on.
fn spread_over_keys(shots: &mut [Shot], random: &mut Random) {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        })
        .collect();
    for shot in shots {
        let point = random.fraction() * sum;
        let rank = sums.partition_point(|sum| *sum <= point);
        shot.key = u32::try_from(rank).unwrap_or(0).min(KEYS - 1);
    }
}

/// Requests for everything there can be, and for one unit more.
fn large(cell: &Cell) -> Vec<Shot> {
    let capacity = u32::try_from(cell.limit.capacity()).unwrap_or(u32::MAX - 1);
    let times = cell.length_ms * 1_000 / LARGE_EVERY_US;
    let pair = |time: u64| {
        let all = Shot {
            cost: capacity,
            ..shot(time * LARGE_EVERY_US, 2 * time, cell)
        };
        let more = Shot {
            cost: capacity + 1,
            ..shot(time * LARGE_EVERY_US + LARGER_AFTER_US, 2 * time + 1, cell)
        };
        [all, more]
    };
    (0..times).flat_map(pair).collect()
}

fn spread(
    count: u64,
    start_us: u64,
    length_us: u64,
    random: &mut Random,
) -> impl Iterator<Item = (u64, u64)> {
    let fraction = move || u64::from(random.below(1_000));
    let mut fraction = fraction;
    (0..count).map(move |index| {
        (
            index,
            start_us + (index * 1_000 + fraction()) * length_us / (count * 1_000),
        )
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a few hundred thousand requests"
)]
fn scaled(units: u64, factor: f64) -> u64 {
    (units as f64 * factor).round() as u64
}

#[cfg(test)]
mod tests {
    use super::super::limits::{self, Limit};
    use super::super::plan::{Mode, Targets, Topology};
    use super::*;

    fn cell(case: Case, limit: Limit, load: f64) -> Cell {
        Cell {
            case,
            mode: Mode::Strict,
            replicas: 4,
            topology: Topology::Single,
            limit,
            load,
            length_ms: 2_000,
            targets: Targets::default(),
        }
    }

    #[test]
    fn the_load_is_what_it_is_called_and_everyone_gets_the_same() {
        let shots = shots(&cell(Case::Grid, limits::PER_SECOND_1000, 2.5), 0);
        assert_eq!(shots.len(), 5_000);
        assert!(shots.is_sorted_by_key(|shot| shot.at_us));
        assert!(
            shots
                .last()
                .is_some_and(|shot| (1_999_000..2_000_000).contains(&shot.at_us))
        );
        for replica in 0..4 {
            assert_eq!(
                shots.iter().filter(|shot| shot.replica == replica).count(),
                1_250
            );
        }
    }

    #[test]
    fn one_replica_is_hot_at_a_time() {
        let shots = shots(&cell(Case::Rotating, limits::PER_SECOND_1000, 1.0), 0);
        let hot: Vec<usize> = shots.iter().map(|shot| shot.replica).collect();
        assert_eq!((hot[0], hot[250], hot[850]), (0, 1, 0));
        assert!(hot[..190].iter().all(|replica| *replica == 0));
    }

    #[test]
    fn edges_are_those_of_the_store() {
        for store_us in [7_000_000, 7_450_000, 7_950_000] {
            let shots = shots(&cell(Case::Edge, limits::FIXED, 1.2), store_us);
            assert_eq!(shots.len(), 2 * 2 * 600);
            let from_edge = |shot: &Shot| {
                let into = (store_us + shot.at_us) % SECOND_US;
                into.min(SECOND_US - into)
            };
            assert!(
                shots.iter().all(|shot| from_edge(shot) <= NEAR_EDGE_US),
                "{store_us}"
            );
            let before = shots
                .iter()
                .filter(|shot| (store_us + shot.at_us) % SECOND_US > SECOND_US / 2);
            assert_eq!(before.count(), 2 * 600);
        }
    }

    #[test]
    fn nobody_is_sent_to_the_dead() {
        let cell = cell(Case::Killed, limits::PER_SECOND_1000, 1.0);
        let shots = shots(&cell, 0);
        let (before, after): (Vec<&Shot>, Vec<&Shot>) =
            shots.iter().partition(|shot| shot.at_us < middle_us(&cell));
        assert!(before.iter().any(|shot| shot.replica == KILLED));
        assert!(after.iter().all(|shot| shot.replica != KILLED));
        assert_eq!(before.len(), after.len());
    }

    #[test]
    fn few_keys_are_asked_for_most() {
        let shots = shots(&cell(Case::Zipf, limits::PER_KEY, 200.0), 0);
        let of = |key| shots.iter().filter(|shot| shot.key == key).count();
        assert_eq!(shots.len(), 8_000);
        assert!(
            of(0) > 800 && of(0) > of(1) && of(1) > of(20),
            "{} {} {}",
            of(0),
            of(1),
            of(20)
        );
    }

    #[test]
    fn somebody_asks_for_all_and_somebody_for_more() {
        let shots = shots(&cell(Case::Costs, limits::WEIGHED, 0.5), 0);
        let of = |cost| shots.iter().filter(|shot| shot.cost == cost).count();
        assert_eq!((of(1_000), of(1_001)), (4, 4));
        let quiet = shots
            .iter()
            .filter(|shot| shot.cost == 1 && shot.at_us % LARGE_EVERY_US > 300_000);
        assert_eq!((of(1) / 100, quiet.count()), (11, 0));
    }
}
