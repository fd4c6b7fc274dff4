//! Limits of this process beside shared ones: one request, all or nothing, whatever the store does.

use tollgate::{Consistency, FailurePolicy, Limit, Source};

use super::store::Way;
use super::{MINUTE, Scene, decided, per_minute};

fn own(limit: u64) -> Limit {
    Limit::sliding_log("own", limit, MINUTE).consistency(Consistency::Local)
}

/// One of each, on a store that answers at once and on one that travels.
fn scenes(own_limit: u64, shared_limit: u64) -> [Scene; 2] {
    [Way::AtOnce, Way::Later].map(|way| {
        let shared = per_minute("shared", shared_limit, FailurePolicy::Local);
        Scene::with(way, [own(own_limit), shared], |builder| builder)
    })
}

impl Scene {
    fn both(&self) -> tollgate::Decision {
        decided(self.limiter.check("own", "ann").and("shared", "ann"))
    }

    /// What is left of each, without taking any.
    fn left(&self) -> [u64; 2] {
        ["own", "shared"].map(|limit| decided(self.limiter.peek(limit, "ann").cost(0)).remaining())
    }
}

#[test]
fn what_either_refuses_costs_nothing_in_both() {
    for scene in scenes(1, 5) {
        assert_eq!(scene.limiter.local_keys(), 0);
        assert!(scene.both().is_allowed());
        assert_eq!(scene.limiter.local_keys(), 1);
        let refused = scene.both();
        assert_eq!(
            refused.denied_by().map(tollgate::LimitOutcome::name),
            Some("own")
        );
        assert_eq!(scene.left(), [0, 4]);
    }
    for scene in scenes(5, 1) {
        assert!(scene.both().is_allowed());
        let refused = scene.both();
        assert_eq!(
            refused.denied_by().map(tollgate::LimitOutcome::name),
            Some("shared")
        );
        assert_eq!(
            refused.limits()[0].remaining(),
            4,
            "what was given back is told as such"
        );
        assert_eq!(scene.left(), [4, 0]);
    }
}

#[test]
fn each_limit_says_who_counted_it() {
    for scene in scenes(5, 5) {
        let decision = scene.both();
        let sources: Vec<Source> = decision
            .limits()
            .iter()
            .map(tollgate::LimitOutcome::source)
            .collect();
        assert_eq!(
            (sources, decision.source()),
            (vec![Source::Local, Source::Store], Source::Store)
        );
        assert_eq!(scene.check("own").source(), Source::Local);
    }
}

#[test]
fn a_limit_of_this_process_needs_no_store() {
    for scene in scenes(2, 100) {
        let scene = scene.away();
        assert!(!scene.check("own").is_degraded());
        // The shared limit's share is empty at first, so it refuses, and the other keeps what it
        // has.
        let refused = scene.both();
        assert!(refused.is_degraded() && !refused.is_allowed());
        assert_eq!(refused.limits()[0].fallback(), None);
        scene.clock.advance(MINUTE / 10);
        assert!(scene.both().is_allowed());
        let refused = scene.both();
        assert_eq!(
            refused.denied_by().map(tollgate::LimitOutcome::name),
            Some("own")
        );
    }
}

#[test]
fn a_reset_and_a_refund_reach_the_counters_of_this_process() {
    let scene = Scene::new([own(2)]).away();
    assert_eq!(scene.check("own").remaining(), 1);
    pollster::block_on(async {
        scene
            .limiter
            .refund("own", "ann")
            .await
            .expect("no store is needed");
        assert_eq!(scene.check("own").remaining(), 1);
        scene
            .limiter
            .reset("own", "ann")
            .await
            .expect("no store is needed");
    });
    assert_eq!(scene.check("own").remaining(), 1);
}

#[test]
fn other_limits_keep_the_counters_of_this_process() {
    let scene = Scene::new([own(5)]);
    assert_eq!(scene.check("own").remaining(), 4);
    let shared = per_minute("shared", 5, FailurePolicy::Allow);
    let other = scene
        .limiter
        .with_limits([own(3), shared], 1)
        .expect("right limits");
    assert_eq!(
        decided(other.check("own", "ann").and("shared", "ann")).limits()[0].remaining(),
        1
    );
    assert_eq!(scene.check("own").remaining(), 2, "both count in one place");
    assert!(scene.limiter.with_limits([own(0)], 1).is_err());
    assert!(scene.limiter.with_limits([own(1)], 0).is_err());
}

#[test]
fn a_request_that_names_no_limit_is_allowed() {
    let scene = Scene::new([own(1)]);
    let decision = decided(scene.limiter.request(tollgate::store::Intent::Spend));
    assert!(decision.is_allowed() && decision.limits().is_empty() && decision.tightest().is_none());
    pollster::block_on(async { scene.limiter.refund_request().await })
        .expect("nothing to give back");
}
