//! Model checking of small buckets and few instances: no reachable state admits more than the
//! bound.

use testkit::lending::Small;
use testkit::volume;

/// Time steps after which a lease has almost ended, and then has ended.
const SMALL: Small = Small {
    capacity: 2,
    period: 200_000,
    processes: 2,
    steps: 5,
    step: 440_000,
    calls: 2,
    counts: 1,
    lengths: [1_000_000, 500_000],
    life: 90,
};

/// A thorough run explores more states.
#[test]
fn no_state_of_a_small_bucket_admits_more_than_the_bound() {
    let [slower, slow] = [580_000, 100_000_000].map(|period| Small { period, ..SMALL });
    let finer = |small: Small| Small {
        steps: 8,
        step: 290_000,
        ..small
    };
    let larger = Small {
        capacity: 3,
        period: 400_000,
        ..SMALL
    };
    let deep = [
        SMALL,
        slower,
        slow,
        larger,
        finer(SMALL),
        finer(slower),
        finer(slow),
    ];
    for small in if volume::is_thorough() {
        &deep[..]
    } else {
        &deep[..1]
    } {
        let states = small.explore().unwrap();
        println!("{states} states of {small:?}");
    }
}

/// The search does find a lease that is spent for too long.
#[test]
fn a_lease_that_outlives_its_generation_is_found() {
    let wrong = Small {
        life: 230,
        calls: 1,
        ..SMALL
    }
    .explore()
    .unwrap_err();
    assert!(wrong.contains(" held of "), "{wrong}");
}
