//! Counting in this process: nothing at first, then a share, and all shares together no more than
//! the limit.

use tollgate::{Calendar, Clock, Concurrency, Rate, TokenBucket};

use super::*;

fn local(limit: Limit) -> Limit {
    limit.on_store_failure(FailurePolicy::Local)
}

#[test]
fn every_rate_starts_with_nothing_and_refills_at_its_share() {
    for limit in [
        Limit::fixed_window("api", 120, MINUTE),
        Limit::calendar_window("api", 120, Calendar::Minute),
        Limit::sliding_window("api", 120, MINUTE),
        Limit::sliding_log("api", 120, MINUTE),
        Limit::token_bucket("api", 120, Rate::per_minute(120)),
        Limit::leaky_bucket("api", 120, Rate::per_minute(120)),
    ] {
        let scene = Scene::of_replicas(4, [local(limit.clone())]).away();
        let first = scene.check("api");
        assert!(!first.is_allowed(), "{limit:?}");
        assert_eq!((first.limit(), first.remaining()), (30, 0));
        assert_eq!(
            (first.retry_after(), first.reset_after()),
            (Some(2 * SECOND), MINUTE),
            "{limit:?}"
        );
        scene.clock.advance(Duration::from_micros(1_999_999));
        assert!(!scene.check("api").is_allowed());
        scene.clock.advance(Duration::from_micros(1));
        assert!(scene.check("api").is_allowed());
        assert!(!scene.check("api").is_allowed());
        scene.clock.advance(10 * MINUTE);
        let burst = (0..100).filter(|_| scene.check("api").is_allowed()).count();
        assert_eq!(
            burst, 30,
            "a bucket holds no more than the share of {limit:?}"
        );
    }
}

/// What is gained by making the store fall over again and again: nothing.
#[test]
fn every_outage_starts_with_nothing() {
    let scene = Scene::new([local(Limit::sliding_window("api", 60, MINUTE))]);
    for outage in 0..5 {
        scene.store.fail(Fault::Timeout);
        assert!(!scene.check("api").is_allowed(), "outage {outage}");
        scene.clock.advance(SECOND);
        assert!(scene.check("api").is_allowed(), "outage {outage}");
        scene.clock.advance(30 * SECOND);
        assert_eq!(scene.check("api").remaining(), 29, "outage {outage}");
        scene.recover("api");
    }
}

/// A key that comes late has what came in since the outage began, not since it came: else
/// everyone's first request of a long outage would be refused, and again whenever the key has been
/// forgotten.
#[test]
fn a_key_that_comes_late_has_what_has_come_in_since_the_outage_began() {
    let scene = Scene::new([local(Limit::sliding_window("api", 60, MINUTE))]).away();
    assert!(!scene.check("api").is_allowed());
    scene.clock.advance(10 * SECOND);
    assert_eq!(decided(scene.limiter.check("api", "bob")).remaining(), 9);
    assert_eq!(scene.check("api").remaining(), 9);
    scene.clock.advance(10 * MINUTE);
    assert_eq!(decided(scene.limiter.check("api", "cid")).remaining(), 59);
}

/// The bound of the documentation: while no replica reaches the store, all of them together admit
/// what the limit's rate gives, and in a burst no more than the limit. Every replica asks much more
/// than its share, at different times.
#[test]
fn replicas_together_stay_within_the_limit() {
    for (limit, replicas) in [(100, 4), (7, 3), (12, 5)] {
        let clock = ManualClock::default();
        let limiter = |_| {
            let store = Flaky::new(&clock, Way::AtOnce);
            store.fail(Fault::Away);
            let limit = local(Limit::sliding_window("api", limit, MINUTE));
            let builder = Limiter::builder()
                .store(store)
                .clock(clock.clone())
                .limit(limit);
            builder.expected_replicas(replicas).build().unwrap()
        };
        let fleet: Vec<Limiter> = (0..replicas).map(limiter).collect();
        let mut admitted = Vec::new();
        for tick in 0..10 * 60 * 4u32 {
            // Every third minute nobody asks, so that buckets fill up.
            let asking = if tick / 240 % 3 == 2 {
                &fleet[..0]
            } else {
                &fleet[..]
            };
            let passed = asking.iter().map(|one| {
                (0..9)
                    .filter(|_| one.check("api", "ann").is_allowed().unwrap())
                    .count()
            });
            admitted.push(passed.sum::<usize>() as u64);
            clock.advance(SECOND / 4);
        }
        let total: u64 = admitted.iter().sum();
        let sum = |from: usize, to: usize| admitted[from..to].iter().sum::<u64>();
        let begun: Vec<u64> = (1..=admitted.len()).map(|to| sum(0, to)).collect();
        for (tick, passed) in begun.iter().enumerate() {
            assert!(
                *passed * 240 <= limit * tick as u64,
                "{passed} of {limit} after {tick} ticks"
            );
        }
        for from in 0..admitted.len() - 240 {
            assert!(
                sum(from, from + 241) <= limit + limit,
                "more than a burst and a minute's refill"
            );
        }
        let asked_minutes = 7;
        assert!(
            total >= (asked_minutes - 1) * limit,
            "{total} of {limit}: the share is not used"
        );
    }
}

#[test]
fn a_queue_is_full_at_first_and_lets_out_its_share() {
    let scene =
        Scene::of_replicas(2, [local(Limit::queue("export", 10, Rate::per_second(10)))]).away();
    let first = scene.check("export");
    assert_eq!((first.is_allowed(), first.limit()), (false, 5));
    assert_eq!(first.retry_after(), Some(SECOND / 5));
    scene.clock.advance(SECOND / 5);
    let admitted = scene.check("export");
    assert_eq!(
        (admitted.is_allowed(), admitted.wait()),
        (true, 4 * SECOND / 5)
    );
    assert!(!scene.check("export").is_allowed());
    scene.clock.advance(SECOND);
    assert_eq!(scene.check("export").wait(), Duration::ZERO);
    assert_eq!(scene.check("export").wait(), SECOND / 5);
}

#[test]
fn places_are_divided() {
    for (limit, replicas, places) in [(10, 4, 2), (3, 10, 1), (5, 1, 5)] {
        let scene =
            Scene::of_replicas(replicas, [local(Limit::concurrency("jobs", limit, MINUTE))]).away();
        let taken = (0..20).filter(|_| scene.check("jobs").is_allowed()).count();
        assert_eq!(taken, places, "{limit} places over {replicas} replicas");
        let refused = scene.check("jobs");
        assert_eq!(
            (refused.retry_after(), refused.limit()),
            (Some(MINUTE), places as u64)
        );
        scene.clock.advance(MINUTE);
        assert!(scene.check("jobs").is_allowed(), "leases run out here too");
    }
}

#[test]
fn numbers_of_the_callers_tier_are_divided_too() {
    let limits = [
        local(Limit::token_bucket("plan", 10, Rate::per_second(10))),
        local(Limit::concurrency("jobs", 2, MINUTE)),
    ];
    let scene = Scene::of_replicas(2, limits).away();
    let pro = TokenBucket::new(100, Rate::per_second(100)).unwrap();
    let ask = || decided(scene.limiter.check("plan", "ann").quota(pro));
    assert_eq!(ask().retry_after(), Some(SECOND / 50));
    scene.clock.advance(SECOND);
    assert_eq!((ask().limit(), ask().remaining()), (50, 48));
    let many = Concurrency::new(8, MINUTE).unwrap();
    assert_eq!(
        decided(scene.limiter.check("jobs", "ann").quota(many)).remaining(),
        3
    );
}

/// A clock that is set back while the store is away refills nothing and locks nobody out.
#[test]
fn a_clock_set_back_does_not_lock_out() {
    let scene = Scene::new([local(Limit::sliding_window("api", 60, MINUTE))]).away();
    assert!(!scene.check("api").is_allowed());
    scene.clock.set(tollgate::Micros::new(
        scene.clock.now().get() - 3_600_000_000,
    ));
    let refused = scene.check("api");
    assert_eq!(
        (refused.remaining(), refused.retry_after()),
        (0, Some(SECOND))
    );
    scene.clock.advance(SECOND);
    assert!(scene.check("api").is_allowed());
    scene.recover("api");
}
