//! The policies `Allow`, `Deny` and `Local`, for one limit and for several.

use tollgate::{Retry, Source, Verdict};

use super::*;

#[test]
fn an_available_store_decides_without_policies() {
    for reply_mode in [ReplyMode::Ready, ReplyMode::Pending] {
        let fixture = Fixture::with(
            reply_mode,
            [per_minute("api", 5, FailurePolicy::Deny)],
            |builder| builder,
        );

        let decision = fixture.check("api");
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
fn every_kind_of_error_falls_back_to_the_policy_in_both_reply_modes() {
    for (reply_mode, fault) in [ReplyMode::Ready, ReplyMode::Pending]
        .into_iter()
        .flat_map(|reply_mode| InjectedFault::ALL.map(|fault| (reply_mode, fault)))
    {
        let limits = [
            FailurePolicy::Allow,
            FailurePolicy::Deny,
            FailurePolicy::Local,
        ]
        .map(|policy| per_minute(policy.as_str(), 5, policy));
        let fixture = Fixture::with(reply_mode, limits, |builder| builder);
        fixture.store.fail(fault);

        for (policy, allowed) in [
            (FailurePolicy::Allow, true),
            (FailurePolicy::Deny, false),
            (FailurePolicy::Local, true),
        ] {
            let decision = fixture.check(policy.as_str());
            assert_eq!(
                decision.is_allowed(),
                allowed,
                "{policy:?} {fault:?} {reply_mode:?}"
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
fn allow_is_the_default_policy() {
    let fixture = Fixture::new([Limit::fixed_window("api", 5, MINUTE)]).unavailable();
    assert_eq!(
        fixture.limiter.rule("api").unwrap().on_store_failure(),
        FailurePolicy::Allow
    );

    for _ in 0..100 {
        let decision = fixture.check("api");
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

    fixture.recover("api");
    assert_eq!(
        fixture.check("api").remaining(),
        4,
        "requests during the outage were not counted"
    );
}

#[test]
fn deny_reports_a_retry_time_of_one_second() {
    let fixture = Fixture::new([per_minute("login", 5, FailurePolicy::Deny)]).unavailable();
    let decision = fixture.check("login");
    assert_eq!(
        (decision.retry_after(), decision.reset_after()),
        (Some(SECOND), SECOND)
    );
    assert_eq!((decision.limit(), decision.remaining()), (5, 0));

    fixture.recover("login");
    assert_eq!(
        fixture.check("login").remaining(),
        4,
        "denied requests were not counted"
    );
}

#[test]
fn a_cost_above_the_limit_can_never_pass_under_any_policy() {
    for policy in [
        FailurePolicy::Allow,
        FailurePolicy::Deny,
        FailurePolicy::Local,
    ] {
        let fixture = Fixture::new([per_minute("api", 5, policy)]).unavailable();

        let decision = decide(fixture.limiter.check("api", "ann").cost(6));
        assert!(
            decision.is_never() && !decision.is_unavailable(),
            "{policy:?}"
        );
    }
}

/// A cost of eight fits into the limit but not into this replica's quarter of it: the store can
/// allow it when it is available again.
#[test]
fn a_cost_above_the_share_may_pass_when_the_store_is_available() {
    let fixture =
        Fixture::with_replicas(4, [per_minute("api", 20, FailurePolicy::Local)]).unavailable();
    let decision = decide(fixture.limiter.check("api", "ann").cost(8));
    assert_eq!(decision.retry(), Some(Retry::After(SECOND)));
    assert_eq!(decision.limit(), 5);
    fixture.recover("api");
    assert!(decide(fixture.limiter.check("api", "ann").cost(8)).is_allowed());
}

#[test]
fn a_denial_by_policy_charges_no_local_counter() {
    let fixture = Fixture::new([
        per_minute("allow", 5, FailurePolicy::Allow),
        per_minute("deny", 5, FailurePolicy::Deny),
        per_minute("local", 1, FailurePolicy::Local),
    ])
    .unavailable();
    let check = || fixture.limiter.check("allow", "ann").and("local", "ann");

    let denied = decide(check().and("deny", "ann"));
    assert_eq!(denied.denied_by().unwrap().name(), "deny");
    assert!(denied.is_unavailable());
    let verdicts: Vec<bool> = denied
        .limits()
        .iter()
        .map(|limit| limit.outcome().verdict.is_allowed())
        .collect();
    assert_eq!(verdicts, [true, true, false]);
    assert_eq!(
        denied.limits()[1].remaining(),
        1,
        "a denied request charges nothing"
    );

    let passed = decide(check());
    assert!(passed.is_allowed());
    assert_eq!(
        fallbacks(&passed),
        [Some(FailurePolicy::Allow), Some(FailurePolicy::Local)]
    );
    assert_eq!(passed.limits()[1].remaining(), 0);
    assert!(!decide(check()).is_allowed());
}

#[test]
fn local_limits_pass_together_or_none_is_charged() {
    let fixture = Fixture::new([
        per_minute("user", 2, FailurePolicy::Local),
        per_minute("tenant", 1, FailurePolicy::Local),
    ])
    .unavailable();
    let check = || decide(fixture.limiter.check("user", "ann").and("tenant", "acme"));

    assert!(check().is_allowed());
    assert_eq!(check().denied_by().unwrap().name(), "tenant");
    assert!(
        fixture.check("user").is_allowed(),
        "the denied request was charged to the user"
    );
    assert!(!fixture.check("user").is_allowed());
}

/// The longest denial decides: a client that retries after a second would be denied again.
#[test]
fn a_longer_local_denial_decides() {
    let fixture = Fixture::new([
        per_minute("deny", 5, FailurePolicy::Deny),
        per_minute("local", 2, FailurePolicy::Local),
    ])
    .unavailable();
    assert_eq!(fixture.exhaust("local"), 2);
    let denied = decide(fixture.limiter.check("deny", "ann").and("local", "ann"));
    assert_eq!(denied.denied_by().unwrap().name(), "local");
    assert_eq!(denied.retry_after(), Some(30 * SECOND));
    assert!(!denied.is_unavailable());
}

#[test]
fn shadow_limits_report_a_denial_without_denying() {
    let fixture = Fixture::new([
        per_minute("deny", 5, FailurePolicy::Deny).shadow(),
        per_minute("tried", 1, FailurePolicy::Local).shadow(),
        per_minute("local", 2, FailurePolicy::Local),
    ])
    .unavailable();
    assert!(fixture.check("tried").is_allowed());
    let check = || {
        decide(
            fixture
                .limiter
                .check("deny", "ann")
                .and("tried", "ann")
                .and("local", "ann"),
        )
    };

    for _ in 0..2 {
        let passed = check();
        assert!(passed.is_allowed() && !passed.is_unavailable());
        assert!(
            passed.limits()[..2]
                .iter()
                .all(|limit| matches!(limit.outcome().verdict, Verdict::Deny { .. }))
        );
    }
    assert_eq!(
        check().denied_by().unwrap().name(),
        "local",
        "the local limit was not charged because a shadow limit denied"
    );
}

#[test]
fn a_peek_charges_nothing() {
    let fixture = Fixture::new([per_minute("local", 1, FailurePolicy::Local)]).unavailable();
    for _ in 0..3 {
        let peek = decide(fixture.limiter.peek("local", "ann"));
        assert!(peek.is_allowed() && peek.is_degraded());
        assert_eq!(peek.remaining(), 1);
    }
    assert!(fixture.check("local").is_allowed());
}

#[test]
fn a_decision_without_waiting_is_not_made_by_a_policy() {
    for mode in [ReplyMode::Ready, ReplyMode::Pending] {
        let limits = [per_minute("allow", 5, FailurePolicy::Allow)];
        let fixture = Fixture::with(mode, limits, |builder| builder).unavailable();
        let check = fixture.limiter.check("allow", "ann");

        assert!(matches!(check.try_is_allowed(), Err(Error::WouldBlock)));
        assert!(matches!(check.try_now(), Err(Error::WouldBlock)));
        assert!(decide(check).is_degraded());
    }
}

#[test]
fn zero_replicas_are_rejected() {
    let error = Limiter::builder().expected_replicas(0).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected_replicas is 0; must be at least 1, the number of replicas that share the store"
    );
}

#[test]
fn invalid_requests_are_rejected_while_the_store_is_unavailable() {
    let fixture = Fixture::new([per_minute("api", 5, FailurePolicy::Allow)]).unavailable();
    assert!(matches!(
        try_decide(fixture.limiter.check("apu", "ann")),
        Err(Error::UnknownLimit { .. })
    ));
    assert!(matches!(
        try_decide(fixture.limiter.check("api", "")),
        Err(Error::Key { .. })
    ));
}
