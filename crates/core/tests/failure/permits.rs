//! Permits, queue positions and refunds while the store is unavailable: they are returned to where
//! they were charged, and nowhere else.

use std::task::{Context, Waker};

use tollgate::{Acquisition, Permit, Rate, Source};

use super::*;

fn jobs(policy: FailurePolicy) -> Limit {
    Limit::concurrency("jobs", 2, MINUTE).on_store_failure(policy)
}

fn acquire(fixture: &Fixture) -> Option<Permit> {
    block_on(fixture.limiter.acquire("jobs", "ann"))
        .expect("a decision")
        .permit()
}

#[test]
fn policy_allow_grants_no_permit() {
    let fixture = Fixture::new([jobs(FailurePolicy::Allow)]).unavailable();
    let permits: Vec<Permit> = (0..5).map(|_| acquire(&fixture).unwrap()).collect();

    for permit in &permits {
        assert!(permit.decision().is_degraded());
        assert_eq!(permit.decision().permit_id(), None, "there is no permit");
        assert!(block_on(permit.renew()).unwrap());
    }

    fixture.recover("jobs");
    drop(permits);
    assert_eq!(
        fixture.store.returns(),
        0,
        "nothing was acquired, so nothing is released"
    );
}

#[test]
fn policy_deny_grants_no_permit() {
    let fixture = Fixture::new([jobs(FailurePolicy::Deny)]).unavailable();
    let Acquisition::Denied(decision) = block_on(fixture.limiter.acquire("jobs", "ann")).unwrap()
    else {
        panic!("a permit")
    };
    assert!(decision.is_unavailable());
    assert_eq!(decision.permit_id(), None);
}

#[test]
fn a_local_permit_is_released_locally() {
    let fixture = Fixture::new([jobs(FailurePolicy::Local)]).unavailable();
    let (first, second) = (acquire(&fixture).unwrap(), acquire(&fixture).unwrap());
    assert!(acquire(&fixture).is_none());

    drop(first);
    let third = acquire(&fixture).unwrap();
    assert!(block_on(second.release()).unwrap());

    fixture.clock.advance(MINUTE / 2);
    assert!(block_on(third.renew()).unwrap());
    fixture.clock.advance(MINUTE / 2);
    assert_eq!(
        decide(fixture.limiter.peek("jobs", "ann").cost(0)).remaining(),
        1,
        "the renewed permit is held"
    );
    fixture.clock.advance(MINUTE / 2);
    assert!(!block_on(third.renew()).unwrap(), "the permit timed out");
    assert_eq!(
        fixture.store.returns(),
        0,
        "the store never granted these permits"
    );
}

/// A permit that was acquired locally stays local when the store is available again.
#[test]
fn a_local_permit_outlives_the_outage_and_never_reaches_the_store() {
    let fixture = Fixture::new([jobs(FailurePolicy::Local)]).unavailable();
    let permit = acquire(&fixture).unwrap();

    fixture.recover("jobs");
    let held: Vec<Permit> = (0..2).map(|_| acquire(&fixture).unwrap()).collect();
    assert!(block_on(permit.renew()).unwrap());

    drop(permit);
    assert_eq!(fixture.store.returns(), 0);
    assert!(
        acquire(&fixture).is_none(),
        "both permits of the store are taken"
    );
    drop(held);
    assert_eq!(fixture.store.returns(), 2);
}

/// A store whose call timed out may have granted the permit, which would then have no owner.
#[test]
fn a_permit_that_may_have_been_granted_is_released() {
    for (fault, returns) in [
        (InjectedFault::Timeout, 1),
        (InjectedFault::Unavailable, 1),
        (InjectedFault::Overloaded, 0),
        (InjectedFault::Refused, 0),
    ] {
        let fixture = Fixture::with(ReplyMode::Pending, [jobs(FailurePolicy::Deny)], |builder| {
            builder
        });
        fixture.store.fail(fault);
        assert!(acquire(&fixture).is_none());
        assert_eq!(fixture.store.returns(), returns, "{fault:?}");
    }
}

/// The same for a check that is dropped while its store call is in flight.
#[test]
fn a_permit_of_a_dropped_check_is_released() {
    let fixture = Fixture::with(ReplyMode::Pending, [jobs(FailurePolicy::Deny)], |builder| {
        builder
    });
    let mut context = Context::from_waker(Waker::noop());

    let mut check = Box::pin(fixture.limiter.check("jobs", "ann").into_future());
    assert!(check.as_mut().poll(&mut context).is_pending());
    drop(check);

    let mut held = Box::pin(fixture.limiter.check("jobs", "ann").acquire());
    assert!(held.as_mut().poll(&mut context).is_pending());
    drop(held);
    assert!(
        fixture.limiter.check("jobs", "ann").try_now().is_err(),
        "this store must be awaited"
    );

    assert_eq!(fixture.store.returns(), 2);
    assert_eq!(
        decide(fixture.limiter.peek("jobs", "ann").cost(0)).remaining(),
        2,
        "both permits are free"
    );
}

#[test]
fn permits_of_the_store_stay_there_during_an_outage() {
    let fixture = Fixture::new([jobs(FailurePolicy::Local)]);
    let (dropped, released) = (acquire(&fixture).unwrap(), acquire(&fixture).unwrap());

    fixture.store.fail(InjectedFault::Unavailable);
    assert!(
        acquire(&fixture).is_some(),
        "the outage has counters of its own"
    );
    drop(dropped);
    assert!(matches!(block_on(released.release()), Err(Error::Store(_))));

    fixture.recover("jobs");
    assert!(acquire(&fixture).is_none());
    fixture.clock.advance(MINUTE);
    assert!(acquire(&fixture).is_some(), "the permits timed out");
}

#[test]
fn a_permit_acquired_during_an_outage_is_released_by_id() {
    let fixture = Fixture::new([jobs(FailurePolicy::Local)]);
    let before = fixture.check("jobs").permit_id().unwrap();

    fixture.store.fail(InjectedFault::Unavailable);
    let permit_id = fixture.check("jobs").permit_id().unwrap();
    assert!(fixture.check("jobs").is_allowed());
    assert!(!fixture.check("jobs").is_allowed());

    block_on(async {
        assert!(
            fixture
                .limiter
                .release("jobs", "ann", permit_id)
                .await
                .unwrap()
        );
        assert!(fixture.check("jobs").is_allowed());
        assert!(matches!(
            fixture.limiter.release("jobs", "ann", permit_id).await,
            Err(Error::Store(_))
        ));

        fixture.recover("jobs");
        assert!(
            !fixture
                .limiter
                .release("jobs", "ann", permit_id)
                .await
                .unwrap()
        );
        assert!(
            fixture
                .limiter
                .release("jobs", "ann", before)
                .await
                .unwrap()
        );
    });
}

#[test]
fn a_permit_of_several_limits_releases_only_what_was_counted() {
    let limits = [
        jobs(FailurePolicy::Local),
        Limit::concurrency("uploads", 1, MINUTE).on_store_failure(FailurePolicy::Allow),
    ];
    let fixture = Fixture::new(limits).unavailable();
    let check = || {
        block_on(
            fixture
                .limiter
                .check("jobs", ())
                .and("uploads", ())
                .acquire(),
        )
        .unwrap()
        .permit()
    };

    let held: Vec<Permit> = (0..2).map(|_| check().unwrap()).collect();
    assert!(held[0].decision().permit_id().is_some());
    assert!(check().is_none());
    drop(held);
    assert!(check().is_some());
}

/// Polls a future once; `None` if it is pending.
fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn checks_do_not_wait_for_an_unavailable_store() {
    let limits = [
        jobs(FailurePolicy::Deny),
        per_minute("api", 5, FailurePolicy::Deny),
        per_minute("local", 2, FailurePolicy::Local),
    ];
    let fixture = Fixture::new(limits).unavailable();
    assert_eq!(fixture.exhaust("local"), 2);

    let api = poll_once(fixture.limiter.check("api", ()).wait_up_to(10 * MINUTE))
        .expect("ready on the first poll")
        .unwrap();
    assert!(api.is_unavailable());

    let both = fixture
        .limiter
        .check("local", "ann")
        .and("api", ())
        .wait_up_to(10 * MINUTE);
    assert_eq!(
        poll_once(both)
            .expect("ready on the first poll")
            .unwrap()
            .denied_by()
            .unwrap()
            .name(),
        "local"
    );

    let acquisition = poll_once(fixture.limiter.check("jobs", ()).acquire_up_to(10 * MINUTE))
        .expect("ready on the first poll");
    assert!(matches!(acquisition.unwrap(), Acquisition::Denied(_)));
    assert_eq!(fixture.clock.sleepers(), 0);
}

#[test]
fn a_wait_uses_local_counters_until_the_store_is_available() {
    let fixture = Fixture::new([per_minute("api", 2, FailurePolicy::Local)]).unavailable();
    assert_eq!(fixture.exhaust("api"), 2);

    let late = poll_once(fixture.limiter.check("api", "ann").wait_up_to(29 * SECOND))
        .expect("ready on the first poll")
        .unwrap();
    assert_eq!(late.retry_after(), Some(30 * SECOND));

    for (healed, source) in [(false, Source::Fallback), (true, Source::Store)] {
        let mut waiting = Box::pin(fixture.limiter.check("api", "ann").wait_up_to(30 * SECOND));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        if healed {
            fixture.store.heal();
        }
        fixture.clock.advance(30 * SECOND);
        let decision = block_on(waiting).unwrap();
        assert_eq!((decision.is_allowed(), decision.source()), (true, source));
    }
}

#[test]
fn a_cancelled_local_queue_position_is_returned_locally() {
    let limits = [
        Limit::queue("export", 4, Rate::per_second(1)).on_store_failure(FailurePolicy::Local),
        jobs(FailurePolicy::Local),
        per_minute("api", 5, FailurePolicy::Allow),
    ];
    let fixture = Fixture::new(limits).unavailable();
    let check = || {
        fixture
            .limiter
            .check("export", ())
            .and("jobs", ())
            .and("api", ())
    };

    // The queue is two requests long.
    for _ in 0..2 {
        assert!(decide(fixture.limiter.check("export", ())).is_allowed());
    }
    let left = |limit: &str| decide(fixture.limiter.peek(limit, ()).cost(0)).remaining();

    let mut waiting = Box::pin(check().acquire_up_to(MINUTE));
    assert!(
        waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    assert_eq!((left("export"), left("jobs")), (1, 1));

    drop(waiting);
    assert_eq!((left("export"), left("jobs")), (2, 2));

    let late = block_on(check().wait_up_to(SECOND)).unwrap();
    assert_eq!(
        (late.is_allowed(), late.retry_after()),
        (false, Some(2 * SECOND))
    );
    assert!(late.is_degraded() && !late.is_unavailable());
    assert_eq!(
        (left("export"), left("jobs")),
        (2, 2),
        "the position came up after the deadline and was returned"
    );
    assert_eq!(fixture.store.returns(), 0);
}

/// What was not charged to the store must not be refunded there: another request's units would be
/// returned.
#[test]
fn a_refund_goes_to_the_store_only_if_the_store_was_charged() {
    for policy in [
        FailurePolicy::Allow,
        FailurePolicy::Deny,
        FailurePolicy::Local,
    ] {
        let fixture = Fixture::new([per_minute("api", 60, policy)]);
        let counted = fixture.check("api");
        fixture.store.fail(InjectedFault::Unavailable);
        assert!(fixture.check("api").is_degraded());
        fixture.clock.advance(SECOND);
        let degraded = fixture.check("api");

        block_on(async {
            let refund = || fixture.limiter.refund("api", "ann");
            refund().charged_by(&degraded).await.unwrap();
            fixture.recover("api");
            refund().charged_by(&degraded).await.unwrap();
            assert_eq!(fixture.store.returns(), 0, "{policy:?}");
            assert_eq!(
                decide(fixture.limiter.peek("api", "ann").cost(0)).remaining(),
                59
            );
            refund().charged_by(&counted).await.unwrap();
            assert_eq!(
                decide(fixture.limiter.peek("api", "ann").cost(0)).remaining(),
                60
            );
        });
    }
}
