//! Places, turns and refunds while the store is away: what was taken somewhere is given back there,
//! and nowhere else.

use std::task::{Context, Waker};

use tollgate::{Acquisition, Permit, Rate, Source};

use super::*;

fn jobs(policy: FailurePolicy) -> Limit {
    Limit::concurrency("jobs", 2, MINUTE).on_store_failure(policy)
}

fn hold(scene: &Scene) -> Option<Permit> {
    block_on(scene.limiter.acquire("jobs", "ann"))
        .expect("an answer")
        .permit()
}

#[test]
fn a_place_that_was_allowed_through_holds_nothing() {
    let scene = Scene::new([jobs(FailurePolicy::Allow)]).away();
    let permits: Vec<Permit> = (0..5).map(|_| hold(&scene).unwrap()).collect();
    for permit in &permits {
        assert!(permit.decision().is_degraded());
        assert_eq!(
            permit.decision().permit_id(),
            None,
            "there is nothing to release"
        );
        assert!(block_on(permit.renew()).unwrap());
    }
    scene.recover("jobs");
    drop(permits);
    assert_eq!(
        scene.store.returns(),
        0,
        "what was not taken was given back"
    );
}

#[test]
fn a_place_that_is_denied_is_not_held() {
    let scene = Scene::new([jobs(FailurePolicy::Deny)]).away();
    let Acquisition::Denied(decision) = block_on(scene.limiter.acquire("jobs", "ann")).unwrap()
    else {
        panic!("a place")
    };
    assert!(decision.is_unavailable());
    assert_eq!(decision.permit_id(), None);
}

#[test]
fn a_local_place_is_given_back_locally() {
    let scene = Scene::new([jobs(FailurePolicy::Local)]).away();
    let (first, second) = (hold(&scene).unwrap(), hold(&scene).unwrap());
    assert!(hold(&scene).is_none());
    drop(first);
    let third = hold(&scene).unwrap();
    assert!(block_on(second.release()).unwrap());
    scene.clock.advance(MINUTE / 2);
    assert!(block_on(third.renew()).unwrap());
    scene.clock.advance(MINUTE / 2);
    assert_eq!(
        decided(scene.limiter.peek("jobs", "ann").cost(0)).remaining(),
        1,
        "the renewed place is held"
    );
    scene.clock.advance(MINUTE / 2);
    assert!(!block_on(third.renew()).unwrap(), "the lease had run out");
    assert_eq!(
        scene.store.returns(),
        0,
        "the store was asked to release what it never held"
    );
}

/// The permit knows where its place is, so the store's return changes nothing for it, and nothing
/// for the store.
#[test]
fn a_local_place_outlives_the_outage_and_never_reaches_the_store() {
    let scene = Scene::new([jobs(FailurePolicy::Local)]).away();
    let permit = hold(&scene).unwrap();
    scene.recover("jobs");
    let held: Vec<Permit> = (0..2).map(|_| hold(&scene).unwrap()).collect();
    assert!(block_on(permit.renew()).unwrap());
    drop(permit);
    assert_eq!(scene.store.returns(), 0);
    assert!(hold(&scene).is_none(), "two places are two places");
    drop(held);
    assert_eq!(scene.store.returns(), 2);
}

/// A store that did not answer may have granted the place all the same, which would then be held by
/// nobody.
#[test]
fn a_place_that_may_have_been_granted_in_vain_is_given_back() {
    for (fault, returns) in [
        (Fault::Timeout, 1),
        (Fault::Away, 1),
        (Fault::Overloaded, 0),
        (Fault::Refused, 0),
    ] {
        let scene = Scene::with(Way::Later, [jobs(FailurePolicy::Deny)], |builder| builder);
        scene.store.fail(fault);
        assert!(hold(&scene).is_none());
        assert_eq!(scene.store.returns(), returns, "{fault:?}");
    }
}

/// So is one that was granted to somebody who has gone.
#[test]
fn a_place_granted_to_nobody_is_given_back() {
    let scene = Scene::with(Way::Later, [jobs(FailurePolicy::Deny)], |builder| builder);
    let mut context = Context::from_waker(Waker::noop());
    let mut check = Box::pin(scene.limiter.check("jobs", "ann").into_future());
    assert!(check.as_mut().poll(&mut context).is_pending());
    drop(check);
    let mut held = Box::pin(scene.limiter.check("jobs", "ann").acquire());
    assert!(held.as_mut().poll(&mut context).is_pending());
    drop(held);
    assert!(
        scene.limiter.check("jobs", "ann").now_or_never().is_err(),
        "this store has to be awaited"
    );
    assert_eq!(scene.store.returns(), 3);
    assert_eq!(
        decided(scene.limiter.peek("jobs", "ann").cost(0)).remaining(),
        2,
        "both places are free"
    );
}

#[test]
fn a_place_held_in_the_store_is_the_stores_business() {
    let scene = Scene::new([jobs(FailurePolicy::Local)]);
    let (dropped, released) = (hold(&scene).unwrap(), hold(&scene).unwrap());
    scene.store.fail(Fault::Away);
    assert!(hold(&scene).is_some(), "places are counted afresh");
    drop(dropped);
    assert!(matches!(block_on(released.release()), Err(Error::Store(_))));
    scene.recover("jobs");
    assert!(hold(&scene).is_none());
    scene.clock.advance(MINUTE);
    assert!(hold(&scene).is_some(), "the leases ran out");
}

#[test]
fn a_lease_granted_meanwhile_is_released_by_hand() {
    let scene = Scene::new([jobs(FailurePolicy::Local)]);
    let before = scene.check("jobs").permit_id().unwrap();
    scene.store.fail(Fault::Away);
    let lease = scene.check("jobs").permit_id().unwrap();
    assert!(scene.check("jobs").is_allowed());
    assert!(!scene.check("jobs").is_allowed());
    block_on(async {
        assert!(scene.limiter.release("jobs", "ann", lease).await.unwrap());
        assert!(scene.check("jobs").is_allowed());
        assert!(matches!(
            scene.limiter.release("jobs", "ann", lease).await,
            Err(Error::Store(_))
        ));
        scene.recover("jobs");
        assert!(!scene.limiter.release("jobs", "ann", lease).await.unwrap());
        assert!(scene.limiter.release("jobs", "ann", before).await.unwrap());
    });
}

#[test]
fn a_permit_of_several_limits_gives_back_only_what_was_counted() {
    let limits = [
        jobs(FailurePolicy::Local),
        Limit::concurrency("uploads", 1, MINUTE).on_store_failure(FailurePolicy::Allow),
    ];
    let scene = Scene::new(limits).away();
    let ask = || {
        block_on(scene.limiter.check("jobs", ()).and("uploads", ()).acquire())
            .unwrap()
            .permit()
    };
    let held: Vec<Permit> = (0..2).map(|_| ask().unwrap()).collect();
    assert!(held[0].decision().permit_id().is_some());
    assert!(ask().is_none());
    drop(held);
    assert!(ask().is_some());
}

/// Polls once, and tells whether the future waits for something.
fn waits<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        std::task::Poll::Ready(answer) => Some(answer),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn nobody_waits_for_a_store_that_may_stay_away() {
    let limits = [
        jobs(FailurePolicy::Deny),
        per_minute("api", 5, FailurePolicy::Deny),
        per_minute("local", 2, FailurePolicy::Local),
    ];
    let scene = Scene::new(limits).away();
    let api = waits(scene.limiter.check("api", ()).wait_up_to(10 * MINUTE))
        .expect("an answer at once")
        .unwrap();
    assert!(api.is_unavailable());
    let both = scene
        .limiter
        .check("local", ())
        .and("api", ())
        .wait_up_to(10 * MINUTE);
    assert_eq!(
        waits(both)
            .expect("an answer at once")
            .unwrap()
            .denied_by()
            .unwrap()
            .name(),
        "local"
    );
    let place = waits(scene.limiter.check("jobs", ()).acquire_up_to(10 * MINUTE))
        .expect("an answer at once");
    assert!(matches!(place.unwrap(), Acquisition::Denied(_)));
    assert_eq!(scene.clock.sleepers(), 0);
}

#[test]
fn a_wait_goes_on_with_local_counts_and_ends_with_the_store_when_it_is_back() {
    let scene = Scene::new([per_minute("api", 2, FailurePolicy::Local)]).away();
    let late = waits(scene.limiter.check("api", ()).wait_up_to(29 * SECOND))
        .expect("an answer at once")
        .unwrap();
    assert_eq!(late.retry_after(), Some(30 * SECOND));
    for (healed, source) in [(false, Source::Fallback), (true, Source::Store)] {
        let mut waiting = Box::pin(scene.limiter.check("api", ()).wait_up_to(30 * SECOND));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        if healed {
            scene.store.heal();
        }
        scene.clock.advance(30 * SECOND);
        let decision = block_on(waiting).unwrap();
        assert_eq!((decision.is_allowed(), decision.source()), (true, source));
    }
}

#[test]
fn a_turn_that_nobody_waits_for_is_given_back_locally() {
    let limits = [
        Limit::queue("export", 4, Rate::per_second(1)).on_store_failure(FailurePolicy::Local),
        jobs(FailurePolicy::Local),
        per_minute("api", 5, FailurePolicy::Allow),
    ];
    let scene = Scene::new(limits).away();
    let ask = || {
        scene
            .limiter
            .check("export", ())
            .and("jobs", ())
            .and("api", ())
    };
    assert!(!decided(ask()).is_allowed());
    scene.clock.advance(2 * SECOND);
    let left = |limit: &str| decided(scene.limiter.peek(limit, ()).cost(0)).remaining();
    let mut waiting = Box::pin(ask().acquire_up_to(MINUTE));
    assert!(
        waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    assert_eq!((left("export"), left("jobs")), (1, 1));
    drop(waiting);
    assert_eq!((left("export"), left("jobs")), (2, 2));
    let late = block_on(ask().wait_up_to(SECOND)).unwrap();
    assert_eq!(
        (late.is_allowed(), late.retry_after()),
        (false, Some(2 * SECOND))
    );
    assert!(late.is_degraded() && !late.is_unavailable());
    assert_eq!(
        (left("export"), left("jobs")),
        (2, 2),
        "the turn came too late and was given back"
    );
    assert_eq!(scene.store.returns(), 0);
}

/// What was never taken from the store must not be given back to it: someone else's hit would be
/// forgotten.
#[test]
fn a_refund_goes_to_the_store_only_if_the_store_was_charged() {
    for policy in [
        FailurePolicy::Allow,
        FailurePolicy::Deny,
        FailurePolicy::Local,
    ] {
        let scene = Scene::new([per_minute("api", 60, policy)]);
        let counted = scene.check("api");
        scene.store.fail(Fault::Away);
        assert!(scene.check("api").is_degraded());
        scene.clock.advance(SECOND);
        let degraded = scene.check("api");
        block_on(async {
            let refund = || scene.limiter.refund("api", "ann");
            refund().charged_by(&degraded).await.unwrap();
            scene.recover("api");
            refund().charged_by(&degraded).await.unwrap();
            assert_eq!(scene.store.returns(), 0, "{policy:?}");
            assert_eq!(
                decided(scene.limiter.peek("api", "ann").cost(0)).remaining(),
                59
            );
            refund().charged_by(&counted).await.unwrap();
            assert_eq!(
                decided(scene.limiter.peek("api", "ann").cost(0)).remaining(),
                60
            );
        });
    }
}
