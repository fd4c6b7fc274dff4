//! The passing of time: the times that a store reports are correct, and on an exact clock to the
//! microsecond.

use std::time::Duration;

use tollgate::{FixedWindow, LeakyBucket, LeakyMode, Micros, Outcome, Rate, Rule, Verdict};

use super::scene::{SHORT, Scene, check, long, passes, retry_after, short};
use crate::differential::Kind;

const MICRO: Micros = Micros::new(1);

/// Waits for a condition that the store announced after `length`; on an exact clock it must be
/// false one microsecond before.
pub(super) fn wait_for(scene: &Scene<'_>, length: Micros, is_there: impl Fn() -> bool) {
    if scene.is_exact() {
        scene.wait(length.since(MICRO));
        assert!(!is_there(), "true a microsecond too early");
        scene.wait(MICRO);
    } else {
        scene.wait(length);
    }
    assert!(is_there(), "after {length:?}");
}

pub(super) fn retry_after_is_when_it_passes(scene: &Scene<'_>, kind: Kind) {
    for cost in [1, 4, 7] {
        let rule = scene.rule(&format!("cost-{cost}"), short(kind, 7));
        scene.spend(&rule, 7);

        let second = scene.spend(&rule, cost);
        match retry_after(&second) {
            Some(length) => wait_for(scene, length, || passes(&scene.peek(&rule, cost))),
            // In real time the window may have passed meanwhile.
            None => assert!(!scene.is_exact() && passes(&second), "{second:?}"),
        }
    }
}

pub(super) fn reset_after_is_when_it_is_full(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", short(kind, 7));
    let spent = scene.spend(&rule, 3);
    let is_full = |outcome: &Outcome| outcome.remaining == 7 && outcome.reset_after == Micros::ZERO;
    wait_for(scene, spent.reset_after, || is_full(&scene.peek(&rule, 0)));
}

/// Also for a part of the limit that was spent later, and for a demand without a cost.
pub(super) fn more_after_is_when_more_is_left(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", short(kind, 7));
    assert_eq!(scene.peek(&rule, 0).more_after, Micros::ZERO, "it is full");

    scene.spend(&rule, 2);
    scene.wait(Micros::from_millis(7));
    let spent = scene.spend(&rule, 3);
    let has_more = || scene.peek(&rule, 0).remaining > spent.remaining;
    wait_for(scene, spent.more_after, has_more);

    let seen = scene.peek(&rule, 0);
    let has_more = || scene.peek(&rule, 0).remaining > seen.remaining;
    if seen.remaining < seen.limit {
        wait_for(scene, seen.more_after, has_more);
    }
}

/// Hits during the window must not extend it, or a busy client would be locked out forever.
pub(super) fn first_hit_window_is_not_extended(scene: &Scene<'_>) {
    let quota = FixedWindow::new(10, SHORT).expect("a valid window");
    let rule = scene.rule("all", quota);
    let (mut end, mut count) = (Micros::ZERO, 0);

    for _ in 0..9 {
        let hit = scene.spend_all(&[check(&rule, "ann", 1)]);
        if hit.at >= end {
            (end, count) = (hit.at.after(Micros::from_millis(60)), 0);
        }

        count += 1;
        assert_eq!(
            hit.outcomes[0].remaining,
            10 - count,
            "a window ends one length after its first hit"
        );

        scene.wait(Micros::from_millis(15));
    }
}

/// One per day: the second waits for the first to drain, the third for both, and the fifth finds
/// the queue full.
pub(super) fn a_queue_reports_the_wait(scene: &Scene<'_>) {
    let rate = Rate::new(1, Duration::from_hours(24));
    let rule = scene.rule(
        "all",
        LeakyBucket::new(LeakyMode::Queue, 4, rate).expect("a valid queue"),
    );
    let day = Micros::from_secs(86_400);

    let waits: Vec<Micros> = (0..4).map(|_| wait_of(&scene.spend(&rule, 1))).collect();
    if scene.is_exact() {
        let days = |count: u64| Micros::new(day.get() * count);
        assert_eq!(waits, [Micros::ZERO, day, days(2), days(3)]);
    }

    assert_eq!(waits[0], Micros::ZERO);
    assert!(
        waits.is_sorted() && waits[3] <= Micros::new(3 * day.get()),
        "{waits:?}"
    );
    assert!(retry_after(&scene.spend(&rule, 1)).is_some());

    for kind in [Kind::TokenBucket, Kind::LeakyMeter, Kind::SlidingLog] {
        let other = scene.rule("no-wait", long(kind, 4));
        assert_eq!(
            (no_wait(scene, &other), no_wait(scene, &other)),
            (Micros::ZERO, Micros::ZERO)
        );
    }
}

fn no_wait(scene: &Scene<'_>, rule: &Rule) -> Micros {
    wait_of(&scene.spend(rule, 1))
}

fn wait_of(outcome: &Outcome) -> Micros {
    match outcome.verdict {
        Verdict::Allow { wait } => wait,
        Verdict::Deny { .. } | Verdict::Never => Micros::MAX,
    }
}
