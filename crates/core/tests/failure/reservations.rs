//! Counts, reservations and settlements while the store is unavailable.

use tollgate::store::{Refusal, SettlementKind};
use tollgate::{Consistency, MemoryStore, Reservation, ReservationExpiry};

use super::*;

const POLICIES: [FailurePolicy; 3] = [
    FailurePolicy::Allow,
    FailurePolicy::Deny,
    FailurePolicy::Local,
];

fn reserve(fixture: &Fixture, estimate: u64) -> Reservation {
    let reserve = fixture.limiter.reserve("tokens", "ann").cost(estimate);
    block_on(reserve.into_future()).expect("a decision")
}

fn left(fixture: &Fixture, limit: &str) -> u64 {
    decide(fixture.limiter.peek(limit, "ann").cost(0)).remaining()
}

#[test]
fn a_reservation_by_a_failure_policy_is_settled_as_a_plain_charge() {
    for policy in [FailurePolicy::Allow, FailurePolicy::Local] {
        let fixture = Fixture::new([per_minute("tokens", 100, policy)]).unavailable();
        let reservation = reserve(&fixture, 40);
        assert!(reservation.is_allowed() && reservation.decision().is_degraded());
        assert_eq!(fallbacks(reservation.decision()), [Some(policy)]);

        fixture.recover("tokens");
        assert_eq!(
            left(&fixture, "tokens"),
            100,
            "the store knows nothing of it"
        );
        block_on(async {
            let kind = reservation.settle(130).await.unwrap();
            assert_eq!(kind, SettlementKind::Unreserved);
            let kind = reservation.settle(130).await.unwrap();
            assert_eq!(kind, SettlementKind::Repeated);
        });

        let next = fixture.check("tokens");
        assert_eq!(
            (next.is_allowed(), next.remaining()),
            (false, 0),
            "{policy:?}: all of the actual cost is charged, once"
        );
        drop(decide(fixture.limiter.count("tokens", "bob").cost(130)));
        assert_eq!(
            next.retry_after(),
            decide(fixture.limiter.check("tokens", "bob")).retry_after(),
            "{policy:?}: as if it had been counted"
        );
    }
}

#[test]
fn a_reservation_that_a_failure_policy_denies_charges_nothing() {
    let limit = per_minute("tokens", 100, FailurePolicy::Deny);
    let fixture = Fixture::new([limit]).unavailable();
    let reservation = reserve(&fixture, 40);
    assert!(!reservation.is_allowed() && reservation.decision().is_unavailable());

    fixture.recover("tokens");
    let kind = block_on(reservation.settle(40)).unwrap();
    assert_eq!(kind, SettlementKind::Unreserved);
    assert_eq!(left(&fixture, "tokens"), 100);
}

#[test]
fn a_settlement_that_fails_is_an_error_and_can_be_repeated() {
    for (fault, policy) in InjectedFault::ALL
        .into_iter()
        .flat_map(|fault| POLICIES.map(|policy| (fault, policy)))
    {
        let fixture = Fixture::new([per_minute("tokens", 100, policy)]);
        let reservation = reserve(&fixture, 40);
        assert_eq!(left(&fixture, "tokens"), 60);

        fixture.store.fail(fault);
        for failures in 1..=3 {
            let error = block_on(reservation.settle(25)).unwrap_err();
            assert!(matches!(error, Error::Store(_)), "{error}");
            let errors = fixture.limiter.health().store_errors.by_kind();
            let total: u64 = errors.into_iter().map(|(_, count)| count).sum();
            assert_eq!(total, failures, "failed settlements are counted");
        }

        fixture.store.heal();
        let kinds = [(); 2].map(|()| block_on(reservation.settle(25)).unwrap());
        assert_eq!(kinds, [SettlementKind::Reserved, SettlementKind::Repeated]);
        assert_eq!(left(&fixture, "tokens"), 75, "{fault:?} {policy:?}");
    }
}

#[test]
fn a_cancellation_that_fails_can_be_repeated() {
    let fixture = Fixture::new([per_minute("tokens", 100, FailurePolicy::Allow)]);
    let reservation = reserve(&fixture, 40);

    fixture.store.fail(InjectedFault::Timeout);
    block_on(reservation.cancel()).expect_err("the store is unavailable");
    fixture.store.heal();
    assert_eq!(left(&fixture, "tokens"), 60);

    let kind = block_on(reservation.cancel()).unwrap();
    assert_eq!(kind, SettlementKind::Reserved);
    assert_eq!(left(&fixture, "tokens"), 100);
}

#[test]
fn a_count_follows_the_failure_policy() {
    for (policy, is_allowed) in [
        (FailurePolicy::Allow, true),
        (FailurePolicy::Deny, false),
        (FailurePolicy::Local, true),
    ] {
        let fixture = Fixture::new([per_minute("tokens", 100, policy)]).unavailable();
        let counted = decide(fixture.limiter.count("tokens", "ann").cost(80));
        assert_eq!(counted.is_allowed(), is_allowed, "{policy:?}");
        assert!(counted.is_degraded());

        let beyond = decide(fixture.limiter.count("tokens", "ann").cost(80));
        let is_local = policy == FailurePolicy::Local;
        assert_eq!(
            beyond.is_allowed(),
            is_allowed && !is_local,
            "{policy:?}: only the local counters count"
        );
        assert_eq!(fixture.check("tokens").is_allowed(), beyond.is_allowed());

        fixture.recover("tokens");
        let next = fixture.check("tokens");
        assert_eq!(
            (next.is_allowed(), next.remaining()),
            (true, 99),
            "{policy:?}: the store was not charged"
        );
    }
}

/// A permit that the local counters granted is released there, not in the store.
#[test]
fn settling_releases_a_permit_of_the_local_counters() {
    let limits = [
        per_minute("tokens", 100, FailurePolicy::Local),
        Limit::concurrency("jobs", 1, MINUTE).on_store_failure(FailurePolicy::Local),
    ];
    let fixture = Fixture::new(limits).unavailable();
    let start = || {
        let reserve = fixture.limiter.reserve("tokens", "ann").cost(10);
        block_on(reserve.and("jobs", "ann").into_future()).expect("a decision")
    };

    let first = start();
    assert!(first.is_allowed());
    assert_eq!(start().decision().denied_by().unwrap().name(), "jobs");

    block_on(first.settle(10)).expect_err("the store is unavailable");
    assert!(start().is_allowed(), "the permit is free");
}

/// A limit of this process has no outage: its reservation is settled exactly.
#[test]
fn a_local_limit_is_reserved_during_an_outage() {
    let limits = [
        per_minute("tokens", 100, FailurePolicy::Allow),
        Limit::sliding_log("here", 100, MINUTE).consistency(Consistency::Local),
    ];
    let fixture = Fixture::new(limits).unavailable();
    let reserve = fixture.limiter.reserve("tokens", "ann").and("here", "ann");
    let reservation = block_on(reserve.cost(40).into_future()).unwrap();
    assert!(reservation.is_allowed());
    assert_eq!(left(&fixture, "here"), 60);

    fixture.recover("tokens");
    block_on(reservation.settle(25)).unwrap();
    assert_eq!((left(&fixture, "tokens"), left(&fixture, "here")), (75, 75));
}

/// A limit without an estimate costs what it was charged, however late the reservation is settled.
#[test]
fn a_limit_without_an_estimate_is_charged_once() {
    for expiry in [ReservationExpiry::Keep, ReservationExpiry::Release] {
        let limit = |name| Limit::sliding_log(name, 100, 10 * MINUTE).on_reservation_expiry(expiry);
        let fixture = Fixture::new([limit("tokens"), limit("requests")]);
        let reserve = fixture.limiter.reserve("tokens", "ann").cost(40);
        let reservation = block_on(reserve.and("requests", "ann").into_future()).unwrap();

        fixture.clock.advance(2 * MINUTE);
        let kind = block_on(reservation.settle(25)).unwrap();
        assert_eq!(kind, SettlementKind::Unreserved, "the reservation expired");
        let tokens = match expiry {
            ReservationExpiry::Keep => 35,
            ReservationExpiry::Release => 75,
        };
        assert_eq!(
            (left(&fixture, "tokens"), left(&fixture, "requests")),
            (tokens, 99),
            "{expiry:?}"
        );
    }
}

/// A shadow limit that would have denied the request was not charged, and stays so.
#[test]
fn a_shadow_denial_is_not_settled() {
    let limits = [
        per_minute("tokens", 100, FailurePolicy::Allow),
        per_minute("trial", 20, FailurePolicy::Allow)
            .shadow()
            .reservation_max(1.0),
    ];
    let fixture = Fixture::new(limits);
    drop(decide(fixture.limiter.check("trial", "ann").cost(15)));
    let reserve = fixture.limiter.reserve("tokens", "ann").and("trial", "ann");
    let reservation = block_on(reserve.cost(10).into_future()).unwrap();
    assert!(reservation.is_allowed());

    block_on(reservation.settle(30)).unwrap();
    assert_eq!((left(&fixture, "tokens"), left(&fixture, "trial")), (70, 5));
}

/// The first end of a reservation counts for all limits: those without an estimate, and those of
/// this process, too. A pair of calls must not switch a limit off.
#[test]
fn a_reservation_has_one_end() {
    let limits = [
        per_minute("tokens", 1_000_000, FailurePolicy::Allow),
        per_minute("requests", 60, FailurePolicy::Allow),
        per_minute("here", 60, FailurePolicy::Allow).consistency(Consistency::Local),
    ];
    let fixture = Fixture::new(limits);
    let reserve = || {
        let reserve = fixture.limiter.reserve("tokens", "ann").cost(40);
        let reserve = reserve.and("requests", "ann").and("here", "ann");
        block_on(reserve.into_future()).expect("a decision")
    };

    let mut admitted = 0;
    for _ in 0..100 {
        let reservation = reserve();
        if !reservation.is_allowed() {
            continue;
        }
        admitted += 1;
        block_on(async {
            let kinds = [
                reservation.settle(25).await.unwrap(),
                reservation.cancel().await.unwrap(),
                reservation.settle(99).await.unwrap(),
            ];
            assert_eq!(kinds[0], SettlementKind::Reserved);
            assert_eq!(kinds[1..], [SettlementKind::Repeated; 2]);
        });
    }
    assert_eq!(admitted, 60);
    let left = ["tokens", "requests", "here"].map(|limit| left(&fixture, limit));
    assert_eq!(left, [1_000_000 - 60 * 25, 0, 0]);

    fixture.clock.advance(2 * MINUTE);
    let reservation = reserve();
    block_on(async {
        let kinds = [
            reservation.cancel().await.unwrap(),
            reservation.settle(40).await.unwrap(),
        ];
        assert_eq!(kinds, [SettlementKind::Reserved, SettlementKind::Repeated]);
    });
    assert_eq!(self::left(&fixture, "requests"), 60);
}

/// A bound of a memory store: it denies with a reason of its own, and holds for one counter, not for
/// those of others. Reservations that have ended take no room.
#[test]
fn too_many_open_reservations_deny_only_their_counter() {
    // At least 4,096 may be open, a quarter of them of one counter.
    const OPEN_MAX: usize = 1_024;
    let store = MemoryStore::builder().keys_max(100).build();
    let tokens = Limit::fixed_window("tokens", 1_000_000, Duration::from_secs(3_600));
    let shadow = Limit::fixed_window("shadow", 1_000_000, Duration::from_secs(3_600)).shadow();
    let limiter = Limiter::new(store, [tokens, shadow]).expect("valid limits");
    let reserve = |limit: &str, key: &str| {
        let reserve = limiter.reserve(limit, key).cost(2);
        block_on(reserve.into_future()).expect("a decision")
    };

    let open: Vec<Reservation> = (0..OPEN_MAX).map(|_| reserve("tokens", "ann")).collect();
    assert!(open.iter().all(Reservation::is_allowed));
    let denied = reserve("tokens", "ann");
    assert_eq!(denied.decision().refusal(), Some(Refusal::Bound));
    assert!(!denied.is_allowed() && !denied.decision().is_degraded());
    assert_eq!(limiter.health().store_errors.bound, 1);
    assert!(reserve("tokens", "bob").is_allowed());
    let charged = 1_000_000 - decide(limiter.peek("tokens", "ann").cost(0)).remaining();
    assert_eq!(charged, 2 * OPEN_MAX as u64);

    drop(
        (0..OPEN_MAX)
            .map(|_| reserve("shadow", "ann"))
            .collect::<Vec<_>>(),
    );
    assert!(
        reserve("shadow", "ann").is_allowed(),
        "a shadow denies nothing"
    );

    for reservation in &open {
        let kind = block_on(reservation.settle(1)).expect("available");
        assert_eq!(kind, SettlementKind::Reserved);
    }
    for _ in 0..10_000 {
        let reservation = reserve("tokens", "ann");
        assert!(
            reservation.is_allowed(),
            "those that have ended take no room"
        );
        block_on(reservation.settle(0)).expect("available");
    }
}
