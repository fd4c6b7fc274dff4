//! A changed quota for the same counter: an override for one caller, or a changed configuration.

use tollgate::Verdict;

use super::scene::{Scene, long, passes};
use crate::differential::Kind;

/// Used units stay used when the limit is raised or lowered; for a bucket, the used fraction.
pub(super) fn a_changed_limit_keeps_what_is_used(scene: &Scene<'_>, kind: Kind) {
    let is_bucket = matches!(
        kind,
        Kind::TokenBucket | Kind::LeakyMeter | Kind::LeakyQueue
    );

    let [usual, raised, lowered] = [10, 20, 5].map(|limit| scene.rule("all", long(kind, limit)));
    scene.spend(&usual, 8);

    let (more, less) = (scene.peek(&raised, 0), scene.peek(&lowered, 0));
    assert_eq!((more.limit, less.limit), (20, 5));
    assert_eq!(
        (more.remaining, less.remaining),
        if is_bucket { (4, 1) } else { (12, 0) }
    );

    assert_eq!(
        scene.left(&usual),
        2,
        "a peek with another quota changes nothing"
    );

    assert!(passes(&scene.peek(&raised, more.remaining)));
    assert!(!passes(&scene.peek(&lowered, 2)));
    assert_eq!(scene.peek(&lowered, 6).verdict, Verdict::Never);
    assert!(
        passes(&scene.peek(&lowered, 0)),
        "a cost of zero is allowed with any quota"
    );
}
