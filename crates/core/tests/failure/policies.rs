//! Allow, deny or local: what a limit says, alone and with others.

use tollgate::{Retry, Source, Verdict};

use super::*;

#[test]
fn a_store_that_answers_decides_and_no_policy_shows() {
    for way in [Way::AtOnce, Way::Later] {
        let scene = Scene::with(
            way,
            [per_minute("api", 5, FailurePolicy::Deny)],
            |builder| builder,
        );
        let decision = scene.check("api");
        assert_eq!((decision.is_allowed(), decision.remaining()), (true, 4));
        assert_eq!(
            (decision.source(), decision.is_degraded()),
            (Source::Store, false)
        );
        assert_eq!(fallbacks(&decision), [None]);
        assert!(!decision.is_unavailable());
    }
}

#[test]
fn every_kind_of_error_is_answered_by_policy_whether_it_comes_at_once_or_later() {
    for (way, fault) in [Way::AtOnce, Way::Later]
        .into_iter()
        .flat_map(|way| Fault::ALL.map(|it| (way, it)))
    {
        let limits = [
            FailurePolicy::Allow,
            FailurePolicy::Deny,
            FailurePolicy::Local,
        ]
        .map(|policy| per_minute(policy.as_str(), 5, policy));
        let scene = Scene::with(way, limits, |builder| builder);
        scene.store.fail(fault);
        for (policy, allowed) in [
            (FailurePolicy::Allow, true),
            (FailurePolicy::Deny, false),
            (FailurePolicy::Local, false),
        ] {
            let decision = scene.check(policy.as_str());
            assert_eq!(
                decision.is_allowed(),
                allowed,
                "{policy:?} {fault:?} {way:?}"
            );
            assert_eq!(
                (decision.source(), decision.is_degraded()),
                (Source::Fallback, true)
            );
            assert_eq!(fallbacks(&decision), [Some(policy)]);
            assert_eq!(decision.is_unavailable(), policy == FailurePolicy::Deny);
        }
    }
}

#[test]
fn to_allow_is_what_happens_when_nothing_is_said() {
    let scene = Scene::new([Limit::fixed_window("api", 5, MINUTE)]).away();
    assert_eq!(
        scene.limiter.rule("api").unwrap().on_store_failure(),
        FailurePolicy::Allow
    );
    for _ in 0..100 {
        let decision = scene.check("api");
        assert!(decision.is_allowed());
        assert_eq!(
            (
                decision.limit(),
                decision.remaining(),
                decision.reset_after()
            ),
            (5, 5, Duration::ZERO)
        );
    }
    scene.recover("api");
    assert_eq!(
        scene.check("api").remaining(),
        4,
        "what passed meanwhile was not counted"
    );
}

#[test]
fn to_deny_is_to_come_back_in_a_second() {
    let scene = Scene::new([per_minute("login", 5, FailurePolicy::Deny)]).away();
    let decision = scene.check("login");
    assert_eq!(
        (decision.retry_after(), decision.reset_after()),
        (Some(SECOND), SECOND)
    );
    assert_eq!((decision.limit(), decision.remaining()), (5, 0));
    scene.recover("login");
    assert_eq!(
        scene.check("login").remaining(),
        4,
        "what was refused was not counted"
    );
}

#[test]
fn what_can_never_fit_is_refused_for_good_by_every_policy() {
    for policy in [
        FailurePolicy::Allow,
        FailurePolicy::Deny,
        FailurePolicy::Local,
    ] {
        let scene = Scene::new([per_minute("api", 5, policy)]).away();
        let decision = decided(scene.limiter.check("api", "ann").cost(6));
        assert!(
            decision.is_never() && !decision.is_unavailable(),
            "{policy:?}"
        );
    }
}

/// Eight fit into the limit and not into this replica's quarter of it: the store can say yes once
/// it is back.
#[test]
fn what_never_fits_into_the_share_may_pass_when_the_store_is_back() {
    let scene = Scene::of_replicas(4, [per_minute("api", 20, FailurePolicy::Local)]).away();
    let decision = decided(scene.limiter.check("api", "ann").cost(8));
    assert_eq!(decision.retry(), Some(Retry::After(SECOND)));
    assert_eq!(decision.limit(), 5);
    scene.recover("api");
    assert!(decided(scene.limiter.check("api", "ann").cost(8)).is_allowed());
}

#[test]
fn one_limit_that_denies_refuses_the_request_and_local_ones_are_only_looked_at() {
    let scene = Scene::new([
        per_minute("allow", 5, FailurePolicy::Allow),
        per_minute("deny", 5, FailurePolicy::Deny),
        per_minute("local", 60, FailurePolicy::Local),
    ])
    .away();
    assert!(!scene.check("local").is_allowed(), "it starts with nothing");
    scene.clock.advance(SECOND);
    let ask = || scene.limiter.check("allow", "ann").and("local", "ann");
    let refused = decided(ask().and("deny", "ann"));
    assert_eq!(refused.denied_by().unwrap().name(), "deny");
    assert!(refused.is_unavailable());
    let verdicts: Vec<bool> = refused
        .limits()
        .iter()
        .map(|limit| limit.outcome().verdict.is_allowed())
        .collect();
    assert_eq!(verdicts, [true, true, false]);
    assert_eq!(
        refused.limits()[1].remaining(),
        1,
        "a refused request consumes nothing"
    );
    let passed = decided(ask());
    assert!(passed.is_allowed());
    assert_eq!(
        fallbacks(&passed),
        [Some(FailurePolicy::Allow), Some(FailurePolicy::Local)]
    );
    assert_eq!(passed.limits()[1].remaining(), 0);
    assert!(!decided(ask()).is_allowed());
}

#[test]
fn local_limits_pass_together_or_none_is_charged() {
    let scene = Scene::new([
        per_minute("user", 60, FailurePolicy::Local),
        per_minute("tenant", 30, FailurePolicy::Local),
    ])
    .away();
    assert!(!scene.check("user").is_allowed());
    scene.clock.advance(SECOND);
    let refused = decided(scene.limiter.check("user", "ann").and("tenant", "acme"));
    assert_eq!(refused.denied_by().unwrap().name(), "tenant");
    assert!(
        scene.check("user").is_allowed(),
        "the refused request was charged to the user"
    );
}

/// The longest refusal decides here too: a client that comes back in a second would be refused
/// again.
#[test]
fn a_local_refusal_that_lasts_longer_decides() {
    let scene = Scene::new([
        per_minute("deny", 5, FailurePolicy::Deny),
        per_minute("local", 2, FailurePolicy::Local),
    ])
    .away();
    let refused = decided(scene.limiter.check("deny", "ann").and("local", "ann"));
    assert_eq!(refused.denied_by().unwrap().name(), "local");
    assert_eq!(refused.retry_after(), Some(30 * SECOND));
    assert!(!refused.is_unavailable());
}

#[test]
fn shadow_limits_say_what_they_would_have_done_and_refuse_nothing() {
    let scene = Scene::new([
        per_minute("deny", 5, FailurePolicy::Deny).shadow(),
        per_minute("tried", 1, FailurePolicy::Local).shadow(),
        per_minute("local", 60, FailurePolicy::Local),
    ])
    .away();
    let ask = || {
        decided(
            scene
                .limiter
                .check("deny", "ann")
                .and("tried", "ann")
                .and("local", "ann"),
        )
    };
    assert_eq!(ask().denied_by().unwrap().name(), "local");
    scene.clock.advance(SECOND);
    let passed = ask();
    assert!(passed.is_allowed() && !passed.is_unavailable());
    assert!(
        passed.limits()[..2]
            .iter()
            .all(|limit| matches!(limit.outcome().verdict, Verdict::Deny { .. }))
    );
    assert!(
        !ask().is_allowed(),
        "the local limit was charged although a shadow limit denied"
    );
}

#[test]
fn a_look_takes_nothing() {
    let scene = Scene::new([per_minute("local", 60, FailurePolicy::Local)]).away();
    assert!(!scene.check("local").is_allowed());
    scene.clock.advance(SECOND);
    for _ in 0..3 {
        let look = decided(scene.limiter.peek("local", "ann"));
        assert!(look.is_allowed() && look.is_degraded());
        assert_eq!(look.remaining(), 1);
    }
    assert!(scene.check("local").is_allowed());
}

#[test]
fn decisions_without_an_executor_follow_the_policy_if_the_store_answers_at_once() {
    let limits = || {
        [FailurePolicy::Allow, FailurePolicy::Deny]
            .map(|policy| per_minute(policy.as_str(), 5, policy))
    };
    let scene = Scene::new(limits()).away();
    assert!(
        scene
            .limiter
            .check("allow", "ann")
            .now_or_never()
            .unwrap()
            .is_degraded()
    );
    assert!(scene.limiter.check("allow", "ann").is_allowed().unwrap());
    assert!(!scene.limiter.check("deny", "ann").is_allowed().unwrap());
    assert!(
        scene
            .limiter
            .check("deny", "ann")
            .now_or_never()
            .unwrap()
            .is_unavailable()
    );
    let later = Scene::with(Way::Later, limits(), |builder| builder).away();
    assert!(matches!(
        later.limiter.check("allow", "ann").is_allowed(),
        Err(Error::WouldBlock)
    ));
    assert!(matches!(
        later.limiter.check("allow", "ann").now_or_never(),
        Err(Error::WouldBlock)
    ));
}

#[test]
fn no_replicas_at_all_are_refused_with_what_would_be_right() {
    let wrong = Limiter::builder().expected_replicas(0).build().unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "expected_replicas is 0; it must be at least 1, the number of processes that share the store"
    );
}

#[test]
fn wrong_requests_stay_wrong_while_the_store_is_away() {
    let scene = Scene::new([per_minute("api", 5, FailurePolicy::Allow)]).away();
    assert!(matches!(
        asked(scene.limiter.check("apu", "ann")),
        Err(Error::UnknownLimit { .. })
    ));
    assert!(matches!(
        asked(scene.limiter.check("api", "")),
        Err(Error::Key { .. })
    ));
}
