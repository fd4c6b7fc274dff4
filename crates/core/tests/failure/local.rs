//! The policy `Local`: budgets are empty at first, refill at this replica's share, and all shares
//! together stay within the limit.

use tollgate::{Calendar, Clock, Concurrency, Rate, TokenBucket};

use super::*;

fn local(limit: Limit) -> Limit {
    limit.on_store_failure(FailurePolicy::Local)
}

#[test]
fn every_algorithm_starts_empty_and_refills_at_its_share() {
    for limit in [
        Limit::fixed_window("api", 120, MINUTE),
        Limit::calendar_window("api", 120, Calendar::Minute),
        Limit::sliding_window("api", 120, MINUTE),
        Limit::sliding_log("api", 120, MINUTE),
        Limit::token_bucket("api", 120, Rate::per_minute(120)),
        Limit::leaky_bucket("api", 120, Rate::per_minute(120)),
    ] {
        let fixture = Fixture::with_replicas(4, [local(limit.clone())]).unavailable();

        let first = fixture.check("api");
        assert!(!first.is_allowed(), "{limit:?}");
        assert_eq!((first.limit(), first.remaining()), (30, 0));
        assert_eq!(
            (first.retry_after(), first.reset_after()),
            (Some(2 * SECOND), MINUTE),
            "{limit:?}"
        );

        fixture.clock.advance(Duration::from_micros(1_999_999));
        assert!(!fixture.check("api").is_allowed());
        fixture.clock.advance(Duration::from_micros(1));
        assert!(fixture.check("api").is_allowed());
        assert!(!fixture.check("api").is_allowed());

        fixture.clock.advance(10 * MINUTE);
        let burst = (0..100)
            .filter(|_| fixture.check("api").is_allowed())
            .count();
        assert_eq!(
            burst, 30,
            "a bucket holds no more than the share of {limit:?}"
        );
    }
}

/// An attacker gains nothing by causing outages.
#[test]
fn every_outage_starts_empty() {
    let fixture = Fixture::new([local(Limit::sliding_window("api", 60, MINUTE))]);
    for outage in 0..5 {
        fixture.store.fail(InjectedFault::Timeout);
        assert!(!fixture.check("api").is_allowed(), "outage {outage}");
        fixture.clock.advance(SECOND);
        assert!(fixture.check("api").is_allowed(), "outage {outage}");
        fixture.clock.advance(30 * SECOND);
        assert_eq!(fixture.check("api").remaining(), 29, "outage {outage}");

        fixture.recover("api");
    }
}

/// A new key's budget refills since the outage began, not since the key's first request. Otherwise
/// every client's first request in a long outage would be denied, and again after an eviction.
#[test]
fn a_new_key_has_refilled_since_the_outage_began() {
    let fixture = Fixture::new([local(Limit::sliding_window("api", 60, MINUTE))]).unavailable();
    assert!(!fixture.check("api").is_allowed());
    fixture.clock.advance(10 * SECOND);
    assert_eq!(decide(fixture.limiter.check("api", "bob")).remaining(), 9);
    assert_eq!(fixture.check("api").remaining(), 9);
    fixture.clock.advance(10 * MINUTE);
    assert_eq!(decide(fixture.limiter.check("api", "cid")).remaining(), 59);
}

/// The documented bound: while the store is unavailable, all replicas together admit at most the
/// limit's rate, and at most the limit in a burst. Every replica sends much more than its share.
#[test]
fn replicas_together_stay_within_the_limit() {
    for (limit, replicas) in [(100, 4), (7, 3), (12, 5)] {
        let clock = ManualClock::default();
        let limiter = |_| {
            let store = FaultyStore::new(&clock, ReplyMode::Ready);
            store.fail(InjectedFault::Unavailable);
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
            // Every third minute there are no requests, so that buckets fill up.
            let active = if tick / 240 % 3 == 2 {
                &fleet[..0]
            } else {
                &fleet[..]
            };
            let admissions = active.iter().map(|one| {
                (0..9)
                    .filter(|_| decide(one.check("api", "ann")).is_allowed())
                    .count()
            });
            admitted.push(admissions.sum::<usize>() as u64);
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

        let active_minutes = 7;
        assert!(
            total >= (active_minutes - 1) * limit,
            "{total} of {limit}: the share is not used"
        );
    }
}

#[test]
fn a_queue_is_full_at_first_and_drains_at_its_share() {
    let fixture =
        Fixture::with_replicas(2, [local(Limit::queue("export", 10, Rate::per_second(10)))])
            .unavailable();
    let first = fixture.check("export");
    assert_eq!((first.is_allowed(), first.limit()), (false, 5));
    assert_eq!(first.retry_after(), Some(SECOND / 5));

    fixture.clock.advance(SECOND / 5);
    let admitted = fixture.check("export");
    assert_eq!(
        (admitted.is_allowed(), admitted.wait()),
        (true, 4 * SECOND / 5)
    );
    assert!(!fixture.check("export").is_allowed());

    fixture.clock.advance(SECOND);
    assert_eq!(fixture.check("export").wait(), Duration::ZERO);
    assert_eq!(fixture.check("export").wait(), SECOND / 5);
}

#[test]
fn permits_are_divided() {
    for (limit, replicas, permits) in [(10, 4, 2), (3, 10, 1), (5, 1, 5)] {
        let fixture =
            Fixture::with_replicas(replicas, [local(Limit::concurrency("jobs", limit, MINUTE))])
                .unavailable();
        let acquired = (0..20)
            .filter(|_| fixture.check("jobs").is_allowed())
            .count();
        assert_eq!(
            acquired, permits,
            "{limit} permits over {replicas} replicas"
        );

        let denied = fixture.check("jobs");
        assert_eq!(
            (denied.retry_after(), denied.limit()),
            (Some(MINUTE), permits as u64)
        );

        fixture.clock.advance(MINUTE);
        assert!(
            fixture.check("jobs").is_allowed(),
            "local permits time out too"
        );
    }
}

#[test]
fn quotas_of_the_call_are_divided_too() {
    let limits = [
        local(Limit::token_bucket("plan", 10, Rate::per_second(10))),
        local(Limit::concurrency("jobs", 2, MINUTE)),
    ];
    let fixture = Fixture::with_replicas(2, limits).unavailable();

    let pro = TokenBucket::new(100, Rate::per_second(100)).unwrap();
    let check = || decide(fixture.limiter.check("plan", "ann").quota(pro));
    assert_eq!(check().retry_after(), Some(SECOND / 50));
    fixture.clock.advance(SECOND);
    assert_eq!((check().limit(), check().remaining()), (50, 48));

    let many = Concurrency::new(8, MINUTE).unwrap();
    assert_eq!(
        decide(fixture.limiter.check("jobs", "ann").quota(many)).remaining(),
        3
    );
}

/// A clock that is set back during an outage neither refills budgets nor locks clients out.
#[test]
fn a_clock_set_back_does_not_lock_clients_out() {
    let fixture = Fixture::new([local(Limit::sliding_window("api", 60, MINUTE))]).unavailable();
    assert!(!fixture.check("api").is_allowed());

    fixture.clock.set(tollgate::Micros::new(
        fixture.clock.now().get() - 3_600_000_000,
    ));
    let denied = fixture.check("api");
    assert_eq!(
        (denied.remaining(), denied.retry_after()),
        (0, Some(SECOND))
    );

    fixture.clock.advance(SECOND);
    assert!(fixture.check("api").is_allowed());
    fixture.recover("api");
}
