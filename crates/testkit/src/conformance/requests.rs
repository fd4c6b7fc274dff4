//! Requests with several demands: all or nothing, and a denied request consumes nothing in any
//! limit.

use tollgate::store::DEMANDS_MAX;
use tollgate::{DemandBuf, Rule, Verdict};

use super::scene::{Scene, check, long, passes, retry_after, shadow};
use crate::differential::Kind;

const MIX: [Kind; 4] = [
    Kind::TokenBucket,
    Kind::SlidingWindow,
    Kind::SlidingLog,
    Kind::FixedFirstHit,
];

fn one_of(rule: &Rule) -> DemandBuf {
    check(rule, "ann", 1)
}

pub(super) fn all_or_nothing_in_both_orders(scene: &Scene<'_>) {
    for kind in Kind::ALL {
        let narrow = scene.rule(&format!("narrow-{kind:?}"), long(kind, 1));
        let wides =
            MIX.map(|other| scene.rule(&format!("wide-{kind:?}-{other:?}"), long(other, 10)));

        for wide in &wides {
            scene.reset(&narrow);
            let both = scene.spend_all(&[one_of(&narrow), one_of(wide)]);
            assert!(both.outcomes.iter().all(passes), "{both:?}");

            for (checks, denier) in [
                ([one_of(&narrow), one_of(wide)], 0),
                ([one_of(wide), one_of(&narrow)], 1),
            ] {
                let denied = scene.spend_all(&checks).outcomes;

                assert!(retry_after(&denied[denier]).is_some(), "{denied:?}");
                assert!(
                    passes(&denied[1 - denier]),
                    "the other limit reports that it would have allowed it"
                );
                assert_eq!(
                    denied[1 - denier].remaining,
                    9,
                    "the other limit has kept its units"
                );
                assert_eq!(
                    scene.left(wide),
                    9,
                    "a denied request consumes nothing in any limit"
                );
            }
        }
    }
}

pub(super) fn never_takes_nothing_from_the_others(scene: &Scene<'_>) {
    let [narrow, wide] =
        [5, 10].map(|limit| scene.rule(&format!("limit-{limit}"), long(Kind::TokenBucket, limit)));
    let outcomes = scene
        .spend_all(&[check(&wide, "ann", 6), check(&narrow, "ann", 6)])
        .outcomes;
    assert!(passes(&outcomes[0]));
    assert_eq!(outcomes[1].verdict, Verdict::Never);
    assert_eq!((scene.left(&narrow), scene.left(&wide)), (5, 10));
}

pub(super) fn all_algorithms_together(scene: &Scene<'_>) {
    let rules = Kind::ALL.map(|kind| scene.rule(&format!("{kind:?}"), long(kind, 3)));
    let checks: Vec<DemandBuf> = rules.iter().map(one_of).collect();

    for left in [2, 1, 0] {
        let outcomes = scene.spend_all(&checks).outcomes;
        assert!(
            outcomes
                .iter()
                .all(|outcome| passes(outcome) && outcome.remaining == left),
            "{outcomes:?}"
        );
    }

    let denied = scene.spend_all(&checks).outcomes;
    assert!(
        denied.iter().all(|outcome| retry_after(outcome).is_some()),
        "{denied:?}"
    );
}

pub(super) fn a_shadow_never_blocks(scene: &Scene<'_>) {
    for kind in Kind::ALL {
        let tried = scene.rule(&format!("tried-{kind:?}"), long(kind, 2));
        let real = scene.rule(&format!("real-{kind:?}"), long(kind, 10));

        for (tried_passes, left) in [(true, 9), (true, 8), (false, 7), (false, 6)] {
            let outcomes = scene
                .spend_all(&[shadow(one_of(&tried)), one_of(&real)])
                .outcomes;
            assert_eq!(
                passes(&outcomes[0]),
                tried_passes,
                "a shadow limit reports what it would have done"
            );
            assert!(passes(&outcomes[1]));
            assert_eq!(
                outcomes[1].remaining, left,
                "a shadow limit does not affect the others"
            );
        }
        assert_eq!(scene.left(&tried), 0);
    }
}

pub(super) fn a_shadow_takes_only_what_passes(scene: &Scene<'_>) {
    for kind in Kind::ALL {
        let tried = scene.rule(&format!("tried-{kind:?}"), long(kind, 5));
        let real = scene.rule(&format!("real-{kind:?}"), long(kind, 1));

        for _ in 0..3 {
            scene.spend_all(&[shadow(one_of(&tried)), one_of(&real)]);
        }
        assert_eq!(
            scene.left(&tried),
            4,
            "only the allowed request was counted"
        );

        let too_much = scene.spend_all(&[shadow(check(&tried, "ann", 5))]).outcomes;
        assert!(!passes(&too_much[0]));
        assert_eq!(
            scene.left(&tried),
            4,
            "a shadow limit that would have denied spends nothing"
        );

        scene.spend_all(&[shadow(check(&tried, "ann", 4))]);
        assert_eq!(scene.left(&tried), 0);
    }
}

pub(super) fn a_peek_of_several_takes_nothing(scene: &Scene<'_>) {
    let rules = Kind::ALL.map(|kind| scene.rule(&format!("{kind:?}"), long(kind, 3)));
    let checks: Vec<DemandBuf> = rules.iter().map(|rule| check(rule, "ann", 2)).collect();

    for _ in 0..3 {
        let outcomes = scene.peek_all(&checks).outcomes;
        assert!(
            outcomes
                .iter()
                .all(|outcome| passes(outcome) && outcome.remaining == 3),
            "{outcomes:?}"
        );
    }

    assert!(rules.iter().all(|rule| scene.left(rule) == 3));
}

pub(super) fn a_refund_of_several(scene: &Scene<'_>) {
    let rules = MIX.map(|kind| scene.rule(&format!("{kind:?}"), long(kind, 5)));
    let spent: Vec<DemandBuf> = rules.iter().map(|rule| check(rule, "ann", 4)).collect();
    let back: Vec<DemandBuf> = rules.iter().map(|rule| check(rule, "ann", 3)).collect();
    scene.spend_all(&spent);
    scene.refund_all(&back);
    assert!(rules.iter().all(|rule| scene.left(rule) == 4));
}

pub(super) fn the_most_checks(scene: &Scene<'_>) {
    let rules: Vec<Rule> = (0..DEMANDS_MAX)
        .map(|index| {
            scene.rule(
                &format!("limit-{index}"),
                long(MIX[index % MIX.len()], index as u64 + 1),
            )
        })
        .collect();

    let checks: Vec<DemandBuf> = rules.iter().map(one_of).collect();
    assert!(scene.spend_all(&checks).outcomes.iter().all(passes));

    let denied = scene.spend_all(&checks).outcomes;
    assert!(
        !passes(&denied[0]) && denied[1..].iter().all(passes),
        "{denied:?}"
    );

    let left: Vec<u64> = rules.iter().map(|rule| scene.left(rule)).collect();
    assert!(left.into_iter().eq(0..DEMANDS_MAX as u64));
}
