//! The schedule: when each request is due, and at which replica. It does not depend on responses,
//! because the load does not wait for them.

use super::limits::SECOND_US;
use super::plan::{Case, Cell};
use crate::random::Random;

/// A request of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScheduledRequest {
    pub(super) at_us: u64,
    pub(super) replica: usize,
    pub(super) key: u32,
    pub(super) cost: u32,
}

/// How long all requests go to the same replica.
const TURN_US: u64 = 200_000;
/// How far before and after a window edge requests are due.
const NEAR_EDGE_US: u64 = 100_000;
const KEYS: u32 = 1_000;
/// How often a request asks for the whole capacity, and how long after it one asks for more.
const LARGE_EVERY_US: u64 = 500_000;
const LARGER_AFTER_US: u64 = 250_000;
/// Around a request for the whole capacity no smaller request is sent: it must be admitted if the
/// bucket is full, regardless of small timing differences, and replicas need time to return their
/// leases.
const QUIET_BEFORE_US: u64 = 200_000;
const QUIET_AFTER_US: u64 = 20_000;

/// The requests of a cell in order of time. The store's clock determines where window edges are.
pub(super) fn requests(cell: &Cell, store_us: u64) -> Vec<ScheduledRequest> {
    let mut random = Random::new(0x5EED);
    let mut requests = match cell.case {
        Case::Cold => at_once(cell),
        Case::Edge => around_edges(cell, store_us, &mut random),
        _ => evenly(cell, &mut random),
    };
    match cell.case {
        Case::Rotating => requests
            .iter_mut()
            .for_each(|scheduled| scheduled.replica = turn(scheduled.at_us, cell.replicas)),
        Case::Killed => spare(&mut requests, cell),
        Case::Zipf => spread_over_keys(&mut requests, &mut random),
        Case::Costs => {
            requests.retain(|scheduled| {
                (QUIET_AFTER_US..LARGE_EVERY_US - QUIET_BEFORE_US)
                    .contains(&(scheduled.at_us % LARGE_EVERY_US))
            });
            requests.extend(large(cell));
        }
        _ => {}
    }
    requests.sort_by_key(|scheduled| scheduled.at_us);
    requests
}

/// The index of the replica that is killed.
pub(super) const KILLED: usize = 0;

/// When replicas or the store are interfered with.
pub(super) fn middle_us(cell: &Cell) -> u64 {
    cell.length_ms * 1_000 / 2
}

fn scheduled(at_us: u64, index: u64, cell: &Cell) -> ScheduledRequest {
    let replicas = u64::try_from(cell.replicas).unwrap_or(1).max(1);
    let replica = usize::try_from(index % replicas).unwrap_or(0);
    ScheduledRequest {
        at_us,
        replica,
        key: 0,
        cost: 1,
    }
}

/// Each request at a random time within its own slot, to one replica after the other.
fn evenly(cell: &Cell, random: &mut Random) -> Vec<ScheduledRequest> {
    let length_us = cell.length_ms * 1_000;
    let count = scaled(cell.limit.per_s() * cell.length_ms, cell.load / 1_000.0);
    spread(count, 0, length_us, random)
        .map(|(index, at_us)| scheduled(at_us, index, cell))
        .collect()
}

fn at_once(cell: &Cell) -> Vec<ScheduledRequest> {
    (0..scaled(cell.limit.capacity(), cell.load))
        .map(|index| scheduled(0, index, cell))
        .collect()
}

/// As many requests before every edge as after it, within a short time.
fn around_edges(cell: &Cell, store_us: u64, random: &mut Random) -> Vec<ScheduledRequest> {
    let count = scaled(cell.limit.capacity(), cell.load);
    let into_window = store_us % SECOND_US;
    // The first edge that is not too close.
    let first_us = if into_window + NEAR_EDGE_US < SECOND_US {
        SECOND_US - into_window
    } else {
        2 * SECOND_US - into_window
    };
    let mut requests = Vec::new();
    for edge in 0..(cell.length_ms * 1_000 / SECOND_US).max(1) {
        let start_us = first_us + edge * SECOND_US - NEAR_EDGE_US;
        let around = spread(2 * count, start_us, 2 * NEAR_EDGE_US, random);
        requests.extend(around.map(|(index, at_us)| scheduled(at_us, index, cell)));
    }
    requests
}

fn turn(at_us: u64, replicas: usize) -> usize {
    usize::try_from(at_us / TURN_US).unwrap_or(0) % replicas.max(1)
}

/// After a replica is dead, its requests go to the others, as with a load balancer.
fn spare(requests: &mut [ScheduledRequest], cell: &Cell) {
    let survivors = cell.replicas.saturating_sub(1);
    let is_lost = |scheduled: &&mut ScheduledRequest| {
        scheduled.at_us >= middle_us(cell) && scheduled.replica == KILLED
    };
    if survivors > 0 {
        let lost = requests.iter_mut().filter(is_lost);
        lost.enumerate()
            .for_each(|(index, scheduled)| scheduled.replica = 1 + index % survivors);
    }
}

/// A Zipf distribution: the second key half as often as the first, the third a third as often, and
/// so on.
fn spread_over_keys(requests: &mut [ScheduledRequest], random: &mut Random) {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        })
        .collect();
    for scheduled in requests {
        let point = random.fraction() * sum;
        let rank = sums.partition_point(|sum| *sum <= point);
        scheduled.key = u32::try_from(rank).unwrap_or(0).min(KEYS - 1);
    }
}

/// Requests for the whole capacity, and for one unit more.
fn large(cell: &Cell) -> Vec<ScheduledRequest> {
    let capacity = u32::try_from(cell.limit.capacity()).unwrap_or(u32::MAX - 1);
    let times = cell.length_ms * 1_000 / LARGE_EVERY_US;
    let pair = |time: u64| {
        let all = ScheduledRequest {
            cost: capacity,
            ..scheduled(time * LARGE_EVERY_US, 2 * time, cell)
        };
        let more = ScheduledRequest {
            cost: capacity + 1,
            ..scheduled(time * LARGE_EVERY_US + LARGER_AFTER_US, 2 * time + 1, cell)
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
    fn the_load_is_exact_and_evenly_distributed() {
        let requests = requests(&cell(Case::Grid, limits::PER_SECOND_1000, 2.5), 0);
        assert_eq!(requests.len(), 5_000);
        assert!(requests.is_sorted_by_key(|scheduled| scheduled.at_us));
        assert!(
            requests
                .last()
                .is_some_and(|scheduled| (1_999_000..2_000_000).contains(&scheduled.at_us))
        );
        for replica in 0..4 {
            assert_eq!(
                requests
                    .iter()
                    .filter(|scheduled| scheduled.replica == replica)
                    .count(),
                1_250
            );
        }
    }

    #[test]
    fn one_replica_is_hot_at_a_time() {
        let requests = requests(&cell(Case::Rotating, limits::PER_SECOND_1000, 1.0), 0);
        let hot: Vec<usize> = requests.iter().map(|scheduled| scheduled.replica).collect();
        assert_eq!((hot[0], hot[250], hot[850]), (0, 1, 0));
        assert!(hot[..190].iter().all(|replica| *replica == 0));
    }

    #[test]
    fn edges_are_those_of_the_store() {
        for store_us in [7_000_000, 7_450_000, 7_950_000] {
            let requests = requests(&cell(Case::Edge, limits::FIXED, 1.2), store_us);
            assert_eq!(requests.len(), 2 * 2 * 600);
            let from_edge = |scheduled: &ScheduledRequest| {
                let into = (store_us + scheduled.at_us) % SECOND_US;
                into.min(SECOND_US - into)
            };
            assert!(
                requests
                    .iter()
                    .all(|scheduled| from_edge(scheduled) <= NEAR_EDGE_US),
                "{store_us}"
            );
            let before = requests
                .iter()
                .filter(|scheduled| (store_us + scheduled.at_us) % SECOND_US > SECOND_US / 2);
            assert_eq!(before.count(), 2 * 600);
        }
    }

    #[test]
    fn no_request_goes_to_a_dead_replica() {
        let cell = cell(Case::Killed, limits::PER_SECOND_1000, 1.0);
        let requests = requests(&cell, 0);
        let (before, after): (Vec<&ScheduledRequest>, Vec<&ScheduledRequest>) = requests
            .iter()
            .partition(|scheduled| scheduled.at_us < middle_us(&cell));
        assert!(before.iter().any(|scheduled| scheduled.replica == KILLED));
        assert!(after.iter().all(|scheduled| scheduled.replica != KILLED));
        assert_eq!(before.len(), after.len());
    }

    #[test]
    fn few_keys_get_most_requests() {
        let requests = requests(&cell(Case::Zipf, limits::PER_KEY, 200.0), 0);
        let of = |key| {
            requests
                .iter()
                .filter(|scheduled| scheduled.key == key)
                .count()
        };
        assert_eq!(requests.len(), 8_000);
        assert!(
            of(0) > 800 && of(0) > of(1) && of(1) > of(20),
            "{} {} {}",
            of(0),
            of(1),
            of(20)
        );
    }

    #[test]
    fn some_requests_cost_the_capacity_and_some_more() {
        let requests = requests(&cell(Case::Costs, limits::WEIGHED, 0.5), 0);
        let of = |cost| {
            requests
                .iter()
                .filter(|scheduled| scheduled.cost == cost)
                .count()
        };
        assert_eq!((of(1_000), of(1_001)), (4, 4));
        let quiet = requests
            .iter()
            .filter(|scheduled| scheduled.cost == 1 && scheduled.at_us % LARGE_EVERY_US > 300_000);
        assert_eq!((of(1) / 100, quiet.count()), (11, 0));
    }
}
