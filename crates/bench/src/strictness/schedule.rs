//! The schedule: when each request is due, and at which replica. It does not depend on responses,
//! because the load does not wait for them.

use std::num::NonZeroU32;

use fastrand::Rng;
use tollgate_load::{KeyDistribution, RequestParams, ScheduledRequest};

use super::cells::{Case, Cell, SECOND_US, refilled};
use crate::harness::prelude::*;

/// How long after the start the first request may be due, so that everything is ready for it.
pub(super) const LEAD_US: u64 = 20_000;
/// The key of all requests, in cases with one key.
pub(super) const HOT_KEY: u32 = 1;
/// The index of the replica that is killed.
pub(super) const KILLED: usize = 0;

/// How long all requests go to the same replica.
const TURN_US: u64 = 200_000;
/// How far before and after a window edge requests are due.
const NEAR_EDGE_US: u64 = 100_000;
/// The number of keys and the exponent of their distribution, in cases with many.
const FEW_KEYS: (NonZeroU32, f64) = (NonZeroU32::new(1_000).expect("not zero"), 1.0);
const MANY_KEYS: (NonZeroU32, f64) = (NonZeroU32::new(20_000).expect("not zero"), 1.1);
/// How often a request asks for the whole capacity, and how long after it one asks for more.
const LARGE_EVERY_US: u64 = 500_000;
const LARGER_AFTER_US: u64 = 250_000;
/// Around a request for the whole capacity no smaller request is sent: it must be admitted if the
/// bucket is full, regardless of small timing differences, and replicas need time to return their
/// leases.
const QUIET_BEFORE_US: u64 = 200_000;
const QUIET_AFTER_US: u64 = 20_000;

/// The requests of a cell in order of time. The wall clock time of the start determines where window
/// edges are.
pub(super) fn requests(cell: &Cell, epoch_us: u64) -> Vec<ScheduledRequest> {
    let mut random = Rng::with_seed(0x5EED);
    let mut requests = Vec::new();
    for (start_us, length_us, count) in bursts(cell, epoch_us + LEAD_US) {
        requests.extend((0..count).map(|index| {
            // At a random time within its own slot.
            let slot = index * 1_000 + random.u64(..1_000);
            scheduled(
                cell,
                start_us + slot * length_us / (count * 1_000),
                index,
                1,
            )
        }));
    }

    match cell.case {
        Case::Rotating => requests
            .iter_mut()
            .for_each(|request| request.replica = index(request.due_us / TURN_US, cell)),
        Case::Killed => spare(&mut requests, cell),
        Case::Zipf => distribute(&mut requests, FEW_KEYS, &mut random),
        Case::Lukewarm => distribute(&mut requests, MANY_KEYS, &mut random),
        // Requests that arrive at a replica one after the other at even intervals do not wait for
        // each other.
        Case::Slow => requests
            .iter_mut()
            .for_each(|request| request.replica = random.usize(..cell.replicas)),
        Case::Costs => {
            let small = QUIET_AFTER_US..LARGE_EVERY_US - QUIET_BEFORE_US;
            requests.retain(|request| small.contains(&(request.due_us % LARGE_EVERY_US)));
            requests.extend(large(cell));
        }
        _ => {}
    }

    requests.sort_by_key(|request| request.due_us);
    requests
        .iter_mut()
        .for_each(|request| request.due_us += LEAD_US);
    requests
}

/// Gives requests keys of a Zipf distribution.
fn distribute(
    requests: &mut [ScheduledRequest],
    (count, exponent): (NonZeroU32, f64),
    random: &mut Rng,
) {
    let keys = KeyDistribution::zipf(count, exponent).expect("the exponent is valid");
    requests
        .iter_mut()
        .for_each(|request| request.params.key = HOT_KEY + keys.sample(random));
}

/// When replicas or the store are interfered with, after the lead.
pub(super) fn middle_us(cell: &Cell) -> u64 {
    cell.length_ms * 1_000 / 2
}

/// How often the store freezes, so that all holes are before the limit is used up.
pub(super) fn hole_every_us(cell: &Cell) -> u64 {
    scaled(cell.length_ms * 1_000 / (cell.holes + 1), 1.0 / cell.load)
}

/// When requests begin, over how long they are spread, and how many they are. In the cold case all
/// are due at once. At every window edge as many are due before it as after it, within a short
/// time. The load of a limit without refill is a multiple of its capacity.
fn bursts(cell: &Cell, epoch_us: u64) -> Vec<(u64, u64, u64)> {
    let length_us = cell.length_ms * 1_000;
    let quota = cell.quota();
    match cell.case {
        Case::Cold => vec![(0, 0, scaled(quota.limit(), cell.load))],
        Case::Edge => {
            // The first edge that is not too close.
            let mut edge_us = SECOND_US - epoch_us % SECOND_US;
            if edge_us <= NEAR_EDGE_US {
                edge_us += SECOND_US;
            }
            let edges = (length_us / SECOND_US).max(1);
            let count = 2 * scaled(quota.limit(), cell.load);
            let start_us = |edge: u64| edge_us + edge * SECOND_US - NEAR_EDGE_US;
            (0..edges)
                .map(|edge| (start_us(edge), 2 * NEAR_EDGE_US, count))
                .collect()
        }
        _ => {
            let units = match refilled(&quota, length_us) {
                0 => quota.limit(),
                units => units,
            };
            vec![(0, length_us, scaled(units, cell.load))]
        }
    }
}

fn scheduled(cell: &Cell, due_us: u64, number: u64, cost: u64) -> ScheduledRequest {
    ScheduledRequest {
        due_us,
        replica: index(number, cell),
        params: RequestParams {
            key: HOT_KEY,
            address: 0,
            cost: Some(cost),
        },
    }
}

/// One replica after the other.
fn index(number: u64, cell: &Cell) -> usize {
    usize::try_from(number).unwrap_or(0) % cell.replicas
}

/// After a replica is dead, its requests go to the others, as with a load balancer.
fn spare(requests: &mut [ScheduledRequest], cell: &Cell) {
    let survivors = cell.replicas.saturating_sub(1).max(1);
    let is_lost = |request: &&mut ScheduledRequest| {
        request.due_us >= middle_us(cell) && request.replica == KILLED
    };
    let lost = requests.iter_mut().filter(is_lost).enumerate();
    lost.for_each(|(index, request)| request.replica = (1 + index % survivors) % cell.replicas);
}

/// Requests for the whole capacity, and for one unit more.
fn large(cell: &Cell) -> impl Iterator<Item = ScheduledRequest> {
    let capacity = cell.quota().limit();
    let times = cell.length_ms * 1_000 / LARGE_EVERY_US;
    (0..times).flat_map(move |time| {
        let at_us = time * LARGE_EVERY_US;
        [
            scheduled(cell, at_us, 2 * time, capacity),
            scheduled(cell, at_us + LARGER_AFTER_US, 2 * time + 1, capacity + 1),
        ]
    })
}

fn scaled(units: u64, factor: f64) -> u64 {
    whole(float(units) * factor) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::cells::{Mode, tests};
    use super::*;

    fn cell(case: Case, limit: &'static str, load: f64) -> Cell {
        Cell {
            load,
            length_ms: 2_000,
            ..tests::cell(case, Mode::Strict, 4, limit)
        }
    }

    fn count(requests: &[ScheduledRequest], is: impl Fn(&ScheduledRequest) -> bool) -> usize {
        requests.iter().filter(|request| is(request)).count()
    }

    #[test]
    fn the_load_is_exact_and_evenly_distributed() {
        let requests = requests(&cell(Case::Grid, "1000-per-s", 2.5), 0);
        assert_eq!(requests.len(), 5_000);
        assert!(requests.is_sorted_by_key(|request| request.due_us));
        let last_us = requests[4_999].due_us - LEAD_US;
        assert!((1_999_000..2_000_000).contains(&last_us), "{last_us}");
        for replica in 0..4 {
            assert_eq!(
                count(&requests, |request| request.replica == replica),
                1_250
            );
        }
    }

    #[test]
    fn a_cold_key_is_used_at_once() {
        let requests = requests(&cell(Case::Cold, "1000-once", 3.0), 0);
        assert_eq!(count(&requests, |request| request.due_us == LEAD_US), 3_000);
    }

    #[test]
    fn one_replica_is_hot_at_a_time() {
        let requests = requests(&cell(Case::Rotating, "1000-per-s", 1.0), 0);
        let hot: Vec<usize> = requests.iter().map(|request| request.replica).collect();
        assert_eq!((hot[0], hot[250], hot[850]), (0, 1, 0));
        assert!(hot[..190].iter().all(|replica| *replica == 0));
    }

    #[test]
    fn edges_are_those_of_the_wall_clock() {
        for epoch_us in [7_000_000, 7_450_000, 7_890_000, 7_950_000] {
            let requests = requests(&cell(Case::Edge, "fixed-500", 1.2), epoch_us);
            assert_eq!(requests.len(), 2 * 2 * 600);
            let into = |request: &ScheduledRequest| (epoch_us + request.due_us) % SECOND_US;
            let is_near = |request: &ScheduledRequest| {
                into(request).min(SECOND_US - into(request)) <= NEAR_EDGE_US
            };
            assert!(requests.iter().all(is_near), "{epoch_us}");
            let before = count(&requests, |request| into(request) > SECOND_US / 2);
            assert_eq!(before, 2 * 600);
        }
    }

    #[test]
    fn no_request_goes_to_a_dead_replica() {
        let cell = cell(Case::Killed, "1000-per-s", 1.0);
        let requests = requests(&cell, 0);
        let is_before = |request: &ScheduledRequest| request.due_us - LEAD_US < middle_us(&cell);
        let is_killed = |request: &ScheduledRequest| request.replica == KILLED;
        assert_eq!(count(&requests, is_before), 1_000);
        assert!(
            count(&requests, |request| is_before(request)
                && is_killed(request))
                > 0
        );
        assert_eq!(
            count(&requests, |request| !is_before(request)
                && is_killed(request)),
            0
        );
    }

    #[test]
    fn few_keys_get_most_requests() {
        let requests = requests(&cell(Case::Zipf, "20-per-s", 200.0), 0);
        let of = |key| count(&requests, |request| request.params.key == HOT_KEY + key);
        assert_eq!(requests.len(), 8_000);
        let counts = [of(0), of(1), of(20)];
        assert!(
            counts[0] > 800 && counts.is_sorted_by(|a, b| a > b),
            "{counts:?}"
        );
    }

    #[test]
    fn a_limit_without_refill_gets_a_multiple_of_its_capacity() {
        for limit in ["1000-once", "1000-per-day"] {
            let requests = requests(&cell(Case::Killed, limit, 1.2), 0);
            assert_eq!(requests.len(), 1_200, "{limit}");
        }
        let minute = Cell {
            length_ms: 60_000,
            ..cell(Case::Lukewarm, "100-per-min", 1_200.0)
        };
        let requests = requests(&minute, 0);
        let keys: HashSet<u32> = requests.iter().map(|request| request.params.key).collect();
        assert_eq!(requests.len(), 120_000);
        assert!((10_000..=20_000).contains(&keys.len()), "{}", keys.len());
    }

    #[test]
    fn the_store_freezes_before_a_limit_is_used_up() {
        let cell = Cell {
            holes: 4,
            ..cell(Case::Hiccups, "1000-once", 2.0)
        };
        assert_eq!(hole_every_us(&cell), 200_000);
        let used_up_us = requests(&cell, 0)[1_000].due_us;
        assert!(4 * hole_every_us(&cell) < used_up_us, "{used_up_us}");
    }

    #[test]
    fn some_requests_cost_the_capacity_and_some_more() {
        let requests = requests(&cell(Case::Costs, "weighed", 0.5), 0);
        let of = |cost| count(&requests, |request| request.params.cost == Some(cost));
        assert_eq!((of(1_000), of(1_001)), (4, 4));
        let quiet = count(&requests, |request| {
            let into_us = (request.due_us - LEAD_US) % LARGE_EVERY_US;
            request.params.cost == Some(1) && into_us > 300_000
        });
        assert_eq!((of(1) / 100, quiet), (11, 0));
    }
}
