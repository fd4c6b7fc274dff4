//! Concurrency: places are held under leases, given back, renewed, and freed by themselves.

use tollgate::{Concurrency, Micros, Rule};

use super::scene::{SHORT, Scene, check, long, passes, retry_after};
use crate::differential::Kind;

/// What a waiting story lets pass: more than half a lease, less than a whole one.
const MOST: Micros = Micros::from_millis(45);

fn short_lease(scene: &Scene<'_>) -> Rule {
    scene.rule("all", Concurrency::new(2, SHORT).expect("a right lease"))
}

pub(super) fn release_frees_the_place(scene: &Scene<'_>) {
    let rule = scene.rule("all", long(Kind::Concurrency, 3));
    let (first, second, stranger) = (scene.new_lease(), scene.new_lease(), scene.new_lease());
    assert!(!scene.release(&rule, first), "nobody holds anything yet");
    assert_eq!(scene.hold(&rule, 2, first).remaining, 1);
    assert_eq!(scene.hold(&rule, 1, second).remaining, 0);
    assert!(!passes(&scene.hold(&rule, 1, stranger)));
    assert!(
        !scene.release(&rule, stranger),
        "a denied request holds no lease"
    );
    assert!(scene.release(&rule, first));
    assert_eq!(scene.left(&rule), 2);
    assert!(!scene.release(&rule, first), "it has already ended");
    assert!(!scene.renew(&rule, first), "it has already ended");
    assert_eq!(scene.left(&rule), 2);
    assert!(passes(&scene.hold(&rule, 2, stranger)));
}

pub(super) fn renew_keeps_the_place(scene: &Scene<'_>) {
    let rule = short_lease(scene);
    let lease = scene.new_lease();
    scene.hold(&rule, 2, lease);
    for _ in 0..3 {
        scene.wait(MOST);
        // On a real clock a slow machine may be too late, and then it is told so.
        if !scene.renew(&rule, lease) {
            assert!(!scene.is_exact(), "renewed in time");
            return;
        }
    }
    let denied = scene.peek(&rule, 1);
    if scene.is_exact() {
        assert_eq!(retry_after(&denied), Some(Micros::from_millis(60)));
    }
}

pub(super) fn a_lease_runs_out(scene: &Scene<'_>) {
    let rule = short_lease(scene);
    let lease = scene.new_lease();
    scene.hold(&rule, 2, lease);
    scene.wait(Micros::from_millis(60));
    assert_eq!(scene.left(&rule), 2);
    assert!(!scene.release(&rule, lease), "it has run out");
    assert!(!scene.renew(&rule, lease), "it has run out");
    assert!(passes(&scene.spend(&rule, 2)));
}

pub(super) fn a_refund_does_not_release(scene: &Scene<'_>) {
    let rule = scene.rule("all", long(Kind::Concurrency, 3));
    scene.spend(&rule, 2);
    scene.refund(&rule, 2);
    assert_eq!(scene.left(&rule), 1);
}

pub(super) fn a_denied_request_holds_nothing(scene: &Scene<'_>) {
    let places = scene.rule("places", long(Kind::Concurrency, 3));
    let narrow = scene.rule("narrow", long(Kind::TokenBucket, 1));
    scene.spend(&narrow, 1);
    let lease = scene.new_lease();
    let denied = scene
        .hold_all(&[check(&places, "ann", 2), check(&narrow, "ann", 1)], lease)
        .outcomes;
    assert!(passes(&denied[0]) && !passes(&denied[1]), "{denied:?}");
    assert_eq!(scene.left(&places), 3);
    assert!(!scene.release(&places, lease), "its lease never began");
}
