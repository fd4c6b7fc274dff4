//! Counting: what every algorithm does while hardly any time passes.

use tollgate::Verdict;

use super::scene::{Scene, long, passes, retry_after};
use crate::differential::Kind;

pub(super) fn allows_to_the_limit_and_denies(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 5));

    for (cost, left) in [(1, 4), (3, 1), (1, 0)] {
        let outcome = scene.spend(&rule, cost);
        assert!(passes(&outcome), "{outcome:?}");
        assert_eq!((outcome.limit, outcome.remaining), (5, left));
        assert!(outcome.reset_after.get() > 0, "{outcome:?}");
    }

    for cost in [1, 5] {
        let denied = scene.spend(&rule, cost);
        assert!(
            retry_after(&denied).is_some_and(|wait| wait.get() > 0),
            "{denied:?}"
        );
        assert_eq!((denied.limit, denied.remaining), (5, 0));
    }
}

pub(super) fn takes_every_cost(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 5));
    let untouched = scene.spend(&rule, 0);
    assert!(passes(&untouched), "{untouched:?}");
    assert_eq!((untouched.remaining, untouched.reset_after.get()), (5, 0));

    for cost in [6, u64::MAX] {
        let outcome = scene.spend(&rule, cost);
        assert_eq!(
            (outcome.verdict, outcome.remaining),
            (Verdict::Never, 5),
            "cost {cost}"
        );
    }

    assert_eq!(scene.spend(&rule, 5).remaining, 0);
    assert!(
        passes(&scene.spend(&rule, 0)),
        "a cost of zero is allowed even when nothing remains"
    );
    assert_eq!(scene.spend(&rule, 6).verdict, Verdict::Never);
    assert_eq!(scene.spend(&rule, u64::MAX).verdict, Verdict::Never);
}

pub(super) fn peek_takes_nothing(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 5));

    for _ in 0..3 {
        let outcome = scene.peek(&rule, 4);
        assert!(passes(&outcome), "{outcome:?}");
        assert_eq!(
            (outcome.remaining, outcome.reset_after.get()),
            (5, 0),
            "nothing is spent"
        );
    }

    assert_eq!(scene.spend(&rule, 3).remaining, 2);
    assert!(!passes(&scene.peek(&rule, 4)));
    assert_eq!(scene.left(&rule), 2);
}

pub(super) fn refund_gives_back(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 5));

    scene.refund(&rule, 3);
    assert_eq!(
        scene.left(&rule),
        5,
        "what was not spent cannot be refunded"
    );

    scene.spend(&rule, 4);
    scene.refund(&rule, 1);
    assert_eq!(scene.left(&rule), 2);
    scene.refund(&rule, 0);
    assert_eq!(scene.left(&rule), 2);

    scene.refund(&rule, u64::MAX);
    assert_eq!(scene.left(&rule), 5, "at most what was spent is refunded");
    assert_eq!(scene.spend(&rule, 5).remaining, 0);
}

pub(super) fn reset_fills(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 5));
    scene.reset(&rule);
    scene.spend(&rule, 5);
    assert!(!passes(&scene.spend(&rule, 1)));
    scene.reset(&rule);
    let full = scene.peek(&rule, 0);
    assert_eq!((full.remaining, full.reset_after.get()), (5, 0));
    assert_eq!(scene.spend(&rule, 5).remaining, 0);
}
