//! Demands that are only counted: charged whether they fit or not, up to what a counter may owe.

use tollgate::{Limit, Verdict};

use super::scene::{Scene, check, long, passes, retry_after, short};
use super::times::wait_for;
use crate::differential::Kind;

pub(super) fn a_count_passes_the_limit(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 5));

    let fits = scene.count(&rule, 3);
    assert!(passes(&fits), "{fits:?}");
    assert_eq!((fits.limit, fits.remaining), (5, 2));

    for cost in [3, 1] {
        let beyond = scene.count(&rule, cost);
        assert!(
            retry_after(&beyond).is_some_and(|wait| wait.get() > 0),
            "it is charged, and the outcome says that it did not fit: {beyond:?}"
        );
        assert_eq!((beyond.limit, beyond.remaining), (5, 0));
    }

    assert!(!passes(&scene.spend(&rule, 1)), "seven of five are used");
    assert!(
        passes(&scene.peek(&rule, 0)),
        "a cost of zero is allowed even by a counter beyond its limit"
    );
    if kind != Kind::Concurrency {
        scene.refund(&rule, 2);
        assert_eq!(scene.left(&rule), 0, "five are used");
        scene.refund(&rule, 1);
        assert_eq!(scene.left(&rule), 1);
    }
}

pub(super) fn a_cost_above_the_limit_is_counted(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 5));
    let outcome = scene.count(&rule, 8);
    assert_eq!((outcome.verdict, outcome.remaining), (Verdict::Never, 0));
    assert!(outcome.reset_after.get() > 0, "{outcome:?}");
    assert!(!passes(&scene.spend(&rule, 1)));

    if kind != Kind::Concurrency {
        scene.refund(&rule, 4);
        assert_eq!(scene.left(&rule), 1, "eight were counted");
    }
}

/// The time of the next admission includes what is owed.
pub(super) fn retry_after_a_count_is_when_it_passes(scene: &Scene<'_>, kind: Kind) {
    for cost in [1, 7] {
        let rule = scene.rule(&format!("cost-{cost}"), short(kind, 7));
        scene.count(&rule, 7);
        scene.count(&rule, 4);

        let third = scene.count(&rule, cost);
        match retry_after(&third) {
            Some(length) => wait_for(scene, length, || passes(&scene.peek(&rule, cost))),
            // In real time the window may have passed meanwhile.
            None => assert!(!scene.is_exact() && passes(&third), "{third:?}"),
        }
    }
}

pub(super) fn a_reset_forgives_what_is_owed(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 5));
    scene.count(&rule, 5);
    scene.count(&rule, 5);
    scene.reset(&rule);
    let full = scene.peek(&rule, 5);
    assert!(passes(&full), "{full:?}");
    assert_eq!((full.remaining, full.reset_after.get()), (5, 0));
}

pub(super) fn a_counter_owes_at_most_its_debt(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule_with("some", long(kind, 5), |limit| limit.debt_max(2));
    scene.count(&rule, 4);
    scene.count(&rule, 100);
    scene.count(&rule, 100);
    scene.refund(&rule, 3);
    assert_eq!(scene.left(&rule), 1, "seven of five were used");

    let rule = scene.rule_with("none", long(kind, 5), |limit| limit.debt_max(0));
    assert_eq!(scene.count(&rule, u64::MAX).verdict, Verdict::Never);
    scene.refund(&rule, 1);
    assert_eq!(scene.left(&rule), 1, "five of five were used");
}

/// A limit without room does not keep the others from counting.
pub(super) fn several_are_all_counted(scene: &Scene<'_>) {
    for kind in Kind::ALL {
        let [narrow, wide] =
            [1, 5].map(|limit| scene.rule(&format!("{kind:?}-{limit}"), long(kind, limit)));
        let both = [check(&narrow, "ann", 1), check(&wide, "ann", 1)];
        assert!(
            scene
                .count_all(&both, scene.new_permit_id())
                .outcomes
                .iter()
                .all(passes)
        );

        let outcomes = scene.count_all(&both, scene.new_permit_id()).outcomes;
        assert!(retry_after(&outcomes[0]).is_some(), "{outcomes:?}");
        assert!(passes(&outcomes[1]), "{outcomes:?}");
        let remaining = (outcomes[0].remaining, outcomes[1].remaining);
        assert_eq!(remaining, (0, 3), "both were counted twice");
    }
}

/// A permit cannot be taken in part: one that a limit may not owe is not taken at all.
pub(super) fn permits_beyond_the_limit(scene: &Scene<'_>) {
    let owes_two = |limit: Limit| limit.debt_max(2);
    let rule = scene.rule_with("all", long(Kind::Concurrency, 3), owes_two);
    let [first, second, third] = [2, 3, 1].map(|cost| {
        let permit_id = scene.new_permit_id();
        let outcome = scene.count_all(&[check(&rule, "ann", cost)], permit_id);
        (permit_id, outcome.outcomes[0])
    });

    assert!(passes(&first.1));
    assert!(!passes(&second.1) && !passes(&third.1), "five of three");
    assert!(!scene.release(&rule, third.0), "a sixth may not be owed");

    assert!(scene.release(&rule, first.0));
    assert_eq!(scene.left(&rule), 0, "three of three");
    assert!(scene.release(&rule, second.0));
    assert_eq!(scene.left(&rule), 3);
}
