//! Concurrency: permits are acquired, released, renewed, and time out.

use tollgate::{Concurrency, Micros, Rule};

use super::scene::{SHORT, Scene, check, long, passes, retry_after};
use crate::differential::Kind;

/// How long a test case waits: more than half of a permit timeout, less than all of it.
const MOST: Micros = Micros::from_millis(45);

fn short_timeout(scene: &Scene<'_>) -> Rule {
    scene.rule(
        "all",
        Concurrency::new(2, SHORT).expect("a valid permit timeout"),
    )
}

pub(super) fn release_frees_the_permit(scene: &Scene<'_>) {
    let rule = scene.rule("all", long(Kind::Concurrency, 3));
    let (first, second, stranger) = (
        scene.new_permit_id(),
        scene.new_permit_id(),
        scene.new_permit_id(),
    );

    assert!(!scene.release(&rule, first), "no permit is held yet");

    assert_eq!(scene.acquire(&rule, 2, first).remaining, 1);
    assert_eq!(scene.acquire(&rule, 1, second).remaining, 0);
    assert!(!passes(&scene.acquire(&rule, 1, stranger)));
    assert!(
        !scene.release(&rule, stranger),
        "a denied request holds no permit"
    );

    assert!(scene.release(&rule, first));
    assert_eq!(scene.left(&rule), 2);
    assert!(!scene.release(&rule, first), "it has already ended");
    assert!(!scene.renew(&rule, first), "it has already ended");
    assert_eq!(scene.left(&rule), 2);

    assert!(passes(&scene.acquire(&rule, 2, stranger)));
}

pub(super) fn renew_keeps_the_permit(scene: &Scene<'_>) {
    let rule = short_timeout(scene);
    let permit_id = scene.new_permit_id();
    scene.acquire(&rule, 2, permit_id);

    for _ in 0..3 {
        scene.wait(MOST);
        // In real time a slow machine may be too late, which renew then reports.
        if !scene.renew(&rule, permit_id) {
            assert!(!scene.is_exact(), "renewed in time");
            return;
        }
    }

    let denied = scene.peek(&rule, 1);
    if scene.is_exact() {
        assert_eq!(retry_after(&denied), Some(Micros::from_millis(60)));
    }
}

pub(super) fn a_permit_times_out(scene: &Scene<'_>) {
    let rule = short_timeout(scene);
    let permit_id = scene.new_permit_id();
    scene.acquire(&rule, 2, permit_id);
    scene.wait(Micros::from_millis(60));
    assert_eq!(scene.left(&rule), 2);
    assert!(!scene.release(&rule, permit_id), "it has timed out");
    assert!(!scene.renew(&rule, permit_id), "it has timed out");
    assert!(passes(&scene.spend(&rule, 2)));
}

pub(super) fn a_refund_does_not_release(scene: &Scene<'_>) {
    let rule = scene.rule("all", long(Kind::Concurrency, 3));
    scene.spend(&rule, 2);
    scene.refund(&rule, 2);
    assert_eq!(scene.left(&rule), 1);
}

pub(super) fn a_denied_request_holds_nothing(scene: &Scene<'_>) {
    let permits = scene.rule("permits", long(Kind::Concurrency, 3));
    let narrow = scene.rule("narrow", long(Kind::TokenBucket, 1));
    scene.spend(&narrow, 1);

    let permit_id = scene.new_permit_id();
    let denied = scene
        .acquire_all(
            &[check(&permits, "ann", 2), check(&narrow, "ann", 1)],
            permit_id,
        )
        .outcomes;

    assert!(passes(&denied[0]) && !passes(&denied[1]), "{denied:?}");
    assert_eq!(scene.left(&permits), 3);
    assert!(
        !scene.release(&permits, permit_id),
        "the permit was never acquired"
    );
}
