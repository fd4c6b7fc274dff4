//! Keys: different inputs never share a counter.

use tollgate::{Rule, ToKey};

use super::scene::{Scene, check, long, passes};
use crate::differential::Kind;

/// Uses up the counter of one key and returns whether another key's counter is unaffected.
fn are_apart(scene: &Scene<'_>, rule: &Rule, used: impl ToKey, other: impl ToKey) -> bool {
    scene.spend_all(&[check(rule, &used, 1)]);
    let again = scene.spend_all(&[check(rule, &used, 1)]);
    assert!(
        !passes(&again.outcomes[0]),
        "the same input is the same counter"
    );
    passes(&scene.spend_all(&[check(rule, other, 1)]).outcomes[0])
}

pub(super) fn text_and_number_differ(scene: &Scene<'_>) {
    let rule = scene.rule("all", long(Kind::TokenBucket, 1));
    assert!(are_apart(scene, &rule, "7", 7u64));
    assert!(are_apart(scene, &rule, "8", b"8".to_vec()));
    assert!(are_apart(scene, &rule, 9u64, (9u64, 9u64)));
}

pub(super) fn parts_do_not_run_together(scene: &Scene<'_>) {
    let rule = scene.rule("all", long(Kind::TokenBucket, 1));
    assert!(are_apart(scene, &rule, ("a", "bc"), ("ab", "c")));
    assert!(are_apart(scene, &rule, ("d", "e"), "de"));
    assert!(are_apart(scene, &rule, ("f", "g"), ("g", "f")));
    assert!(are_apart(scene, &rule, "h", ()));
    assert!(are_apart(scene, &rule, "i\0j", ("i", "j")));
}

pub(super) fn limits_do_not_mix(scene: &Scene<'_>) {
    let [one, two] = ["one", "two"].map(|part| scene.rule(part, long(Kind::SlidingWindow, 5)));
    scene.spend(&one, 5);
    assert_eq!((scene.left(&one), scene.left(&two)), (0, 5));
}

/// A limit that changes its algorithm starts with a new counter instead of misreading the old one.
pub(super) fn algorithms_do_not_mix(scene: &Scene<'_>) {
    let rules = Kind::ALL.map(|kind| scene.rule("all", long(kind, 5)));
    for (index, rule) in rules.iter().enumerate() {
        scene.spend(rule, 5);
        let left: Vec<u64> = rules.iter().map(|rule| scene.left(rule)).collect();
        assert!(left[..=index].iter().all(|left| *left == 0), "{left:?}");
        assert!(left[index + 1..].iter().all(|left| *left == 5), "{left:?}");
    }
}

pub(super) fn reset_forgets_one_counter_alone(scene: &Scene<'_>) {
    let rule = scene.rule("all", long(Kind::SlidingLog, 5));
    scene.spend_all(&[check(&rule, "ann", 5)]);
    scene.spend_all(&[check(&rule, "bob", 5)]);
    scene.reset(&rule);
    let left =
        ["ann", "bob"].map(|key| scene.peek_all(&[check(&rule, key, 0)]).outcomes[0].remaining);
    assert_eq!(left, [5, 0]);
}
