//! Lockouts: keys that are denied too often are locked for a time.

use std::time::Duration;

use tollgate::{DemandBuf, Lockout, Micros, Outcome, Rule, Verdict};

use super::scene::{LONG, SHORT, Scene, check, long, passes, retry_after, shadow};
use crate::differential::Kind;

/// The algorithms whose limits may have a lockout.
const KINDS: [Kind; 6] = [
    Kind::FixedFirstHit,
    Kind::FixedCalendar,
    Kind::SlidingWindow,
    Kind::SlidingLog,
    Kind::TokenBucket,
    Kind::LeakyMeter,
];
/// Longer than any window of a test.
const LOCKED: Duration = Duration::from_hours(50 * 24);

/// A limit of `units` that locks a key out after this number of denials.
fn rule(scene: &Scene<'_>, name: &str, kind: Kind, units: u64, after: u32) -> Rule {
    let lockout = Lockout::new(after, LONG, LOCKED).expect("valid numbers");
    let name = format!("{name}-{kind:?}");
    scene.rule_with(&name, long(kind, units), |limit| limit.lockout(lockout))
}

/// Whether the outcome says that the key is locked, and whether the demand has caused it.
fn lock(outcome: &Outcome) -> Option<bool> {
    outcome.lock.rest().map(|_| outcome.lock.is_new())
}

fn micros(length: Duration) -> Micros {
    Micros::from_duration(length).expect("whole microseconds")
}

pub(super) fn denials_lock_the_key_out(scene: &Scene<'_>) {
    for kind in KINDS {
        let rule = rule(scene, "limit", kind, 2, 3);
        assert!(passes(&scene.spend(&rule, 2)));
        for _ in 0..2 {
            let denied = scene.spend(&rule, 1);
            assert!(retry_after(&denied).is_some());
            assert_eq!(lock(&denied), None, "{kind:?}: {denied:?}");
        }

        let locked = scene.spend(&rule, 1);
        assert_eq!(lock(&locked), Some(true), "{kind:?}: {locked:?}");
        assert_eq!(locked.lock.rest(), Some(micros(LOCKED)));
        assert_eq!(retry_after(&locked), Some(micros(LOCKED)));

        let again = scene.spend(&rule, 1);
        assert_eq!(lock(&again), Some(false), "{kind:?}: {again:?}");
        assert!(retry_after(&again) <= retry_after(&locked));
        let read = scene.peek(&rule, 0);
        assert!(passes(&read), "reading is allowed");
        assert_eq!((lock(&read), read.remaining), (Some(false), 0));
        assert!(!passes(&scene.peek(&rule, 1)));

        let other = scene.spend_all(&[check(&rule, "bob", 1)]).outcomes[0];
        assert!(passes(&other) && lock(&other).is_none());
    }
}

pub(super) fn only_enforced_requests_count_as_denials(scene: &Scene<'_>) {
    for kind in KINDS {
        let rule = rule(scene, "limit", kind, 1, 2);
        scene.spend(&rule, 1);
        for _ in 0..5 {
            scene.peek(&rule, 1);
            scene.spend(&rule, 0);
            scene.count(&rule, 1);
        }
        assert_eq!(lock(&scene.spend(&rule, 1)), None, "{kind:?}");

        let (ttl, id) = (Micros::from_secs(1), scene.new_permit_id());
        let locked = scene.reserve(&rule, 1, ttl, id);
        assert_eq!(lock(&locked), Some(true), "{kind:?}: a reservation counts");
    }
}

pub(super) fn a_lockout_ends_and_grows(scene: &Scene<'_>) {
    for kind in KINDS {
        let lockout = Lockout::new(1, LONG, SHORT).and_then(|it| it.with_growth(2, 3 * SHORT));
        let lockout = lockout.expect("valid numbers");
        let name = format!("{kind:?}");
        let rule = scene.rule_with(&name, long(kind, 1), |limit| limit.lockout(lockout));
        scene.spend(&rule, 1);

        for length in [SHORT, 2 * SHORT, 3 * SHORT, 3 * SHORT] {
            let locked = scene.spend(&rule, 1);
            assert_eq!(lock(&locked), Some(true), "{kind:?}");
            assert_eq!(locked.lock.rest(), Some(micros(length)));
            assert!(
                retry_after(&locked) > locked.lock.rest(),
                "the limit itself denies for longer"
            );

            if scene.is_exact() {
                scene.wait(micros(length).since(Micros::new(1)));
                assert_eq!(lock(&scene.peek(&rule, 1)), Some(false), "{kind:?}");
                scene.wait(Micros::new(1));
            } else {
                scene.wait(micros(length));
            }
            assert_eq!(lock(&scene.peek(&rule, 1)), None, "{kind:?}");
        }
    }
}

pub(super) fn a_reset_unlocks(scene: &Scene<'_>) {
    for kind in KINDS {
        let rule = rule(scene, "limit", kind, 1, 1);
        for _ in 0..2 {
            scene.spend(&rule, 1);
        }
        assert_eq!(lock(&scene.peek(&rule, 1)), Some(false), "{kind:?}");

        scene.reset(&rule);
        let allowed = scene.spend(&rule, 1);
        assert!(passes(&allowed) && lock(&allowed).is_none(), "{kind:?}");
    }
}

pub(super) fn a_locked_key_is_still_counted(scene: &Scene<'_>) {
    for kind in KINDS {
        let lockout = Lockout::new(1, LONG, SHORT).expect("valid numbers");
        let name = format!("{kind:?}");
        let rule = scene.rule_with(&name, long(kind, 5), |limit| limit.lockout(lockout));
        scene.spend(&rule, 5);
        let length = scene.spend(&rule, 1).lock.rest().expect("a lockout");
        scene.refund(&rule, 5);

        // Whether the key is still locked in real time depends on the machine.
        let counted = scene.count(&rule, 2);
        if scene.is_exact() {
            assert_eq!(lock(&counted), Some(false), "{kind:?}: {counted:?}");
            assert_eq!(retry_after(&counted), Some(length), "{kind:?}");
        }
        scene.wait(length);
        assert_eq!(scene.left(&rule), 3, "{kind:?}: two were counted");
    }
}

/// The demands of two limits, on one key or on two, which may be in different slots of a cluster.
fn pairs(first: &Rule, second: &Rule) -> [[DemandBuf; 2]; 3] {
    [("ann", "ann"), ("ann", "bob"), ("bob", "ann")]
        .map(|(one, other)| [check(first, one, 1), check(second, other, 1)])
}

pub(super) fn each_limit_counts_its_own_denials(scene: &Scene<'_>) {
    for kind in KINDS {
        for index in 0..3 {
            let narrow = rule(scene, &format!("narrow-{index}"), kind, 1, 2);
            let wide = rule(
                scene,
                &format!("wide-{kind:?}-{index}"),
                Kind::TokenBucket,
                3,
                2,
            );
            let both = &pairs(&narrow, &wide)[index];
            for (is_allowed, narrow_lock) in [(true, None), (false, None), (false, Some(true))] {
                let outcomes = scene.spend_all(both).outcomes;
                assert_eq!(passes(&outcomes[0]), is_allowed, "{kind:?}");
                assert_eq!(lock(&outcomes[0]), narrow_lock, "{kind:?}: {outcomes:?}");
                assert!(passes(&outcomes[1]) && lock(&outcomes[1]).is_none());
                assert_eq!(outcomes[1].remaining, 2, "a denied request charges nothing");
            }
        }
    }
}

pub(super) fn all_limits_that_deny_count(scene: &Scene<'_>) {
    for kind in KINDS {
        for index in 0..3 {
            let first = rule(scene, &format!("first-{index}"), kind, 1, 2);
            let second = rule(
                scene,
                &format!("second-{kind:?}-{index}"),
                Kind::SlidingLog,
                2,
                2,
            );
            let both = &pairs(&first, &second)[index];
            scene.spend_all(both);
            scene.spend_all(&both[1..]);

            for is_locked in [None, Some(true), Some(false)] {
                let outcomes = scene.spend_all(both).outcomes;
                let locks = [lock(&outcomes[0]), lock(&outcomes[1])];
                assert_eq!(locks, [is_locked; 2], "{kind:?}: {outcomes:?}");
            }
        }
    }
}

pub(super) fn a_shadow_is_locked_and_never_blocks(scene: &Scene<'_>) {
    for kind in KINDS {
        let tried = rule(scene, "tried", kind, 1, 2);
        let real = scene.rule(&format!("real-{kind:?}"), long(kind, 10));
        let both = [shadow(check(&tried, "ann", 1)), check(&real, "ann", 1)];

        for (left, locked) in [(9, None), (8, None), (7, Some(true)), (6, Some(false))] {
            let outcomes = scene.spend_all(&both).outcomes;
            assert_eq!(lock(&outcomes[0]), locked, "{kind:?}: {outcomes:?}");
            assert!(passes(&outcomes[1]));
            assert_eq!(outcomes[1].remaining, left);
        }
    }
}

pub(super) fn what_can_never_pass_never_passes(scene: &Scene<'_>) {
    let rule = rule(scene, "limit", Kind::TokenBucket, 5, 2);
    for locked in [None, Some(true), Some(false)] {
        let never = scene.spend(&rule, 6);
        assert_eq!(never.verdict, Verdict::Never);
        assert_eq!(lock(&never), locked);
    }
    assert!(retry_after(&scene.spend(&rule, 1)).is_some());
}
