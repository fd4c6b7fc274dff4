//! The policy `Local`: a key starts from this replica's share unless the store has denied it, and
//! all shares together stay within the limit and its rate.

use tollgate::{Calendar, Clock, Concurrency, Rate, TokenBucket};

use super::*;

fn local(limit: Limit) -> Limit {
    limit.on_store_failure(FailurePolicy::Local)
}

/// A limit of 120 per minute of every algorithm that counts over time.
fn limits_over_time() -> [Limit; 6] {
    [
        Limit::fixed_window("api", 120, MINUTE),
        Limit::calendar_window("api", 120, Calendar::Minute),
        Limit::sliding_window("api", 120, MINUTE),
        Limit::sliding_log("api", 120, MINUTE),
        Limit::token_bucket("api", 120, Rate::per_minute(120)),
        Limit::leaky_bucket("api", 120, Rate::per_minute(120)),
    ]
    .map(local)
}

#[test]
fn every_algorithm_starts_from_its_share_and_refills_at_it() {
    for limit in limits_over_time() {
        let fixture = Fixture::with_replicas(4, [limit.clone()]).unavailable();

        let first = fixture.check("api");
        assert!(first.is_allowed(), "{limit:?}");
        assert_eq!((first.limit(), first.remaining()), (30, 29));
        assert_eq!(first.reset_after(), 2 * SECOND);
        assert_eq!(fixture.exhaust("api"), 29);

        let denied = fixture.check("api");
        assert_eq!(
            (denied.retry_after(), denied.reset_after()),
            (Some(2 * SECOND), MINUTE),
            "{limit:?}"
        );
        fixture.clock.advance(Duration::from_micros(1_999_999));
        assert!(!fixture.check("api").is_allowed());
        fixture.clock.advance(Duration::from_micros(1));
        assert_eq!(fixture.exhaust("api"), 1);

        fixture.clock.advance(10 * MINUTE);
        assert_eq!(
            fixture.exhaust("api"),
            30,
            "a bucket holds no more than the share of {limit:?}"
        );
    }
}

/// An attacker whose key is being denied gains nothing by making the store fail.
#[test]
fn a_key_that_the_store_denies_starts_empty() {
    for (limit, reply_mode) in limits_over_time()
        .into_iter()
        .flat_map(|limit| [ReplyMode::Ready, ReplyMode::Pending].map(|mode| (limit.clone(), mode)))
    {
        let fixture = Fixture::with(reply_mode, [limit.clone()], |builder| {
            builder.expected_replicas(4)
        });
        assert_eq!(fixture.exhaust("api"), 120, "{limit:?}");

        fixture.store.fail(InjectedFault::Unavailable);
        let denied = fixture.check("api");
        assert!(denied.is_degraded() && !denied.is_allowed(), "{limit:?}");
        assert_eq!(denied.retry_after(), Some(2 * SECOND));
        assert_eq!(
            decide(fixture.limiter.check("api", "bob")).remaining(),
            29,
            "another key starts from its share"
        );

        fixture.clock.advance(10 * SECOND);
        assert_eq!(fixture.exhaust("api"), 5, "{limit:?}");
    }
}

/// The share of a denied key refills from the denial on, not from the beginning of the outage.
#[test]
fn a_denied_key_refills_from_the_denial_on() {
    let limit = local(Limit::fixed_window("api", 60, MINUTE));
    let fixture = Fixture::with_replicas(2, [limit]);
    assert_eq!(fixture.exhaust("api"), 60);

    fixture.clock.advance(20 * SECOND);
    fixture.store.fail(InjectedFault::Timeout);
    assert_eq!(fixture.exhaust("api"), 10);
}

/// A request that costs more than what is left does not exhaust the limit.
#[test]
fn a_denial_leaves_the_share_of_what_the_store_has_left() {
    let fixture = Fixture::with_replicas(4, [local(Limit::sliding_log("api", 120, MINUTE))]);
    assert!(decide(fixture.limiter.check("api", "ann").cost(75)).is_allowed());
    assert!(!decide(fixture.limiter.check("api", "ann").cost(46)).is_allowed());

    fixture.store.fail(InjectedFault::Unavailable);
    assert_eq!(fixture.exhaust("api"), 11, "a quarter of 45");
}

/// In a request over several limits, only those that deny are drained.
#[test]
fn only_the_limits_that_deny_start_empty() {
    let fixture = Fixture::new([
        local(Limit::sliding_log("user", 5, MINUTE)),
        local(Limit::sliding_log("tried", 1, MINUTE)).shadow(),
        local(Limit::sliding_log("tenant", 2, MINUTE)),
    ]);
    let check = || {
        let check = fixture.limiter.check("user", "ann").and("tried", "ann");
        decide(check.and("tenant", "ann"))
    };
    assert!(check().is_allowed() && check().is_allowed() && !check().is_allowed());

    fixture.store.fail(InjectedFault::Unavailable);
    let left = |limit| decide(fixture.limiter.peek(limit, "ann").cost(0)).remaining();
    assert_eq!((left("user"), left("tried"), left("tenant")), (5, 0, 0));
}

/// What was admitted in one outage is not admitted again in the next.
#[test]
fn outages_in_a_row_share_one_budget() {
    let fixture = Fixture::new([local(Limit::sliding_window("api", 600, 10 * MINUTE))]);
    let mut admitted = 0;
    for _ in 0..5 {
        fixture.store.fail(InjectedFault::Timeout);
        admitted += fixture.exhaust("api");
        fixture.recover("api");
        fixture.clock.advance(9 * SECOND);
    }
    assert_eq!(admitted, 600 + 40, "one limit, and a unit per second");
}

/// The store's admissions are charged to the local counters for a window after an outage.
#[test]
fn what_the_store_admits_after_an_outage_is_charged_locally() {
    let limit = local(Limit::sliding_log("api", 600, 10 * MINUTE));
    for (pause, left) in [(9 * MINUTE, 500), (10 * MINUTE, 600)] {
        let fixture = Fixture::new([limit.clone()]).unavailable();
        assert!(decide(fixture.limiter.check("api", "bob")).is_allowed());
        fixture.recover("api");

        fixture.clock.advance(pause);
        (0..100).for_each(|_| assert!(fixture.check("api").is_allowed()));
        fixture.store.fail(InjectedFault::Unavailable);
        assert_eq!(fixture.exhaust("api"), left, "{pause:?} after the outage");
    }
}

/// An administrator who resets a key wants it to be served, with the store or without it.
#[test]
fn a_reset_forgets_denials() {
    let fixture = Fixture::new([local(Limit::sliding_log("api", 5, MINUTE))]);
    assert_eq!(fixture.exhaust("api"), 5);
    block_on(fixture.limiter.reset("api", "ann")).unwrap();
    fixture.store.fail(InjectedFault::Unavailable);
    assert_eq!(fixture.exhaust("api"), 5);
}

/// Sends more than every replica's share, four times a second for ten minutes, except in every
/// third minute, when buckets fill up. Returns what was admitted at each time.
fn admissions(fleet: &[Limiter], clock: &ManualClock) -> Vec<u64> {
    let mut admitted = Vec::new();
    for tick in 0..10 * 60 * 4u32 {
        let is_active = tick / 240 % 3 != 2;
        let admissions = fleet.iter().filter(|_| is_active).map(|one| {
            (0..30)
                .filter(|_| decide(one.check("api", "ann")).is_allowed())
                .count()
        });
        admitted.push(admissions.sum::<usize>() as u64);
        clock.advance(SECOND / 4);
    }
    admitted
}

/// The documented bound: while the store is unavailable, all replicas together admit at most the
/// limit and its rate, and only the rate if the store has denied the key.
#[test]
fn replicas_together_stay_within_the_limit() {
    for (limit, replicas, is_denied) in [
        (100, 4, false),
        (100, 4, true),
        (12, 3, false),
        (12, 5, true),
    ] {
        let clock = ManualClock::default();
        let store = FaultyStore::new(&clock, ReplyMode::Ready);
        let limiter = |_| {
            let limit = local(Limit::sliding_log("api", limit, MINUTE));
            let builder = Limiter::builder()
                .store(store.clone())
                .clock(clock.clone())
                .limit(limit);
            builder.expected_replicas(replicas).build().unwrap()
        };
        let fleet: Vec<Limiter> = (0..replicas).map(limiter).collect();
        if is_denied {
            assert!(decide(fleet[0].check("api", "ann").cost(limit)).is_allowed());
            for one in &fleet {
                assert!(!decide(one.check("api", "ann")).is_allowed());
            }
        }
        store.fail(InjectedFault::Unavailable);

        let admitted = admissions(&fleet, &clock);
        let first_burst = if is_denied { 0 } else { limit };
        let mut total = 0;
        for (tick, passed) in admitted.iter().enumerate() {
            total += passed;
            assert!(
                (total - first_burst.min(total)) * 240 <= limit * tick as u64,
                "{total} of {limit} after {tick} ticks"
            );
        }
        for interval in admitted.windows(241) {
            let passed: u64 = interval.iter().sum();
            assert!(passed <= limit + limit, "more than a burst and a minute");
        }

        let active_minutes = 7;
        assert!(
            total >= (active_minutes - 1) * limit,
            "{total} of {limit}: the share is not used"
        );
    }
}

#[test]
fn a_queue_is_divided() {
    let queue = local(Limit::queue("export", 10, Rate::per_second(10)));
    let fixture = Fixture::with_replicas(2, [queue]).unavailable();
    let waits: Vec<Duration> = (0..5).map(|_| fixture.check("export").wait()).collect();
    assert_eq!(waits, [0, 1, 2, 3, 4].map(|place| place * SECOND / 5));

    let full = fixture.check("export");
    assert_eq!((full.is_allowed(), full.limit()), (false, 5));
    assert_eq!(full.retry_after(), Some(SECOND / 5));
    fixture.clock.advance(SECOND / 5);
    assert_eq!(fixture.check("export").wait(), 4 * SECOND / 5);
}

#[test]
fn a_queue_that_the_store_reports_full_starts_full() {
    let queue = local(Limit::queue("export", 10, Rate::per_second(10)));
    let fixture = Fixture::with_replicas(2, [queue]);
    assert_eq!(fixture.exhaust("export"), 10);

    fixture.store.fail(InjectedFault::Unavailable);
    assert_eq!(fixture.check("export").retry_after(), Some(SECOND / 5));
    fixture.clock.advance(SECOND / 5);
    assert_eq!(fixture.check("export").wait(), 4 * SECOND / 5);
}

#[test]
fn permits_are_divided() {
    for (limit, replicas, permits) in [(10, 4, 2), (3, 10, 1), (5, 1, 5)] {
        let fixture =
            Fixture::with_replicas(replicas, [local(Limit::concurrency("jobs", limit, MINUTE))])
                .unavailable();
        assert_eq!(
            fixture.exhaust("jobs"),
            permits,
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
    assert_eq!((check().limit(), check().remaining()), (50, 48));
    assert_eq!(
        fixture.check("plan").remaining(),
        3,
        "a bucket that is used by 4 % in one plan is so in another"
    );

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
    assert_eq!(fixture.exhaust("api"), 60);

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
