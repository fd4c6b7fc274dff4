//! Requests over local and shared limits: all-or-nothing, whatever the store does.

use tollgate::{Consistency, FailurePolicy, Limit, Source};

use super::store::ReplyMode;
use super::{Fixture, MINUTE, decide, per_minute};

fn local(limit: u64) -> Limit {
    Limit::sliding_log("local", limit, MINUTE).consistency(Consistency::Local)
}

/// One limit of each kind, for both reply modes of the store.
fn fixtures(local_limit: u64, shared_limit: u64) -> [Fixture; 2] {
    [ReplyMode::Ready, ReplyMode::Pending].map(|reply_mode| {
        let shared = per_minute("shared", shared_limit, FailurePolicy::Local);
        Fixture::with(reply_mode, [local(local_limit), shared], |builder| builder)
    })
}

impl Fixture {
    fn both(&self) -> tollgate::Decision {
        decide(self.limiter.check("local", "ann").and("shared", "ann"))
    }

    /// The units left of each limit.
    fn left(&self) -> [u64; 2] {
        ["local", "shared"].map(|limit| decide(self.limiter.peek(limit, "ann").cost(0)).remaining())
    }
}

#[test]
fn a_denial_by_either_limit_charges_neither() {
    for fixture in fixtures(1, 5) {
        assert_eq!(fixture.limiter.local_keys(), 0);
        assert!(fixture.both().is_allowed());
        assert_eq!(fixture.limiter.local_keys(), 1);

        let denied = fixture.both();
        assert_eq!(
            denied.denied_by().map(tollgate::LimitOutcome::name),
            Some("local")
        );
        assert_eq!(fixture.left(), [0, 4]);
    }

    for fixture in fixtures(5, 1) {
        assert!(fixture.both().is_allowed());
        let denied = fixture.both();
        assert_eq!(
            denied.denied_by().map(tollgate::LimitOutcome::name),
            Some("shared")
        );
        assert_eq!(
            denied.limits()[0].remaining(),
            4,
            "the outcome includes the returned unit"
        );
        assert_eq!(fixture.left(), [4, 0]);
    }
}

#[test]
fn each_limit_reports_its_source() {
    for fixture in fixtures(5, 5) {
        let decision = fixture.both();
        let sources: Vec<Source> = decision
            .limits()
            .iter()
            .map(tollgate::LimitOutcome::source)
            .collect();
        assert_eq!(
            (sources, decision.source()),
            (vec![Source::Local, Source::Store], Source::Store)
        );
        assert_eq!(fixture.check("local").source(), Source::Local);
    }
}

#[test]
fn a_local_limit_needs_no_store() {
    for fixture in fixtures(2, 100) {
        let fixture = fixture.unavailable();
        assert!(!fixture.check("local").is_degraded());

        let allowed = fixture.both();
        assert!(allowed.is_degraded() && allowed.is_allowed());
        assert_eq!(allowed.limits()[0].fallback(), None);
        let denied = fixture.both();
        assert_eq!(
            denied.denied_by().map(tollgate::LimitOutcome::name),
            Some("local")
        );
        assert_eq!(denied.limits()[1].remaining(), 99, "nothing was charged");
    }
}

/// A permit of a local limit is released where it was acquired, although the request as a whole was
/// decided without the store.
#[test]
fn a_local_permit_in_a_degraded_request_is_released() {
    let jobs = Limit::concurrency("jobs", 1, MINUTE).consistency(Consistency::Local);
    let shared = per_minute("shared", 5, FailurePolicy::Local);
    let fixture = Fixture::new([jobs, shared]).unavailable();
    let acquire = || {
        let check = fixture.limiter.check("jobs", "ann").and("shared", "ann");
        pollster::block_on(check.acquire())
            .expect("a decision")
            .permit()
    };

    let permit = acquire().expect("the only permit");
    assert!(permit.decision().is_degraded() && acquire().is_none());
    drop(permit);
    let permit = acquire().expect("the permit was released");
    assert!(pollster::block_on(permit.renew()).expect("no store is needed"));
}

#[test]
fn resets_and_refunds_reach_local_counters() {
    let fixture = Fixture::new([local(2)]).unavailable();
    assert_eq!(fixture.check("local").remaining(), 1);

    pollster::block_on(async {
        fixture
            .limiter
            .refund("local", "ann")
            .await
            .expect("no store is needed");
        assert_eq!(fixture.check("local").remaining(), 1);
        fixture
            .limiter
            .reset("local", "ann")
            .await
            .expect("no store is needed");
    });
    assert_eq!(fixture.check("local").remaining(), 1);
}

#[test]
fn with_limits_keeps_local_counters() {
    let fixture = Fixture::new([local(5)]);
    assert_eq!(fixture.check("local").remaining(), 4);

    let shared = per_minute("shared", 5, FailurePolicy::Allow);
    let other = fixture
        .limiter
        .with_limits([local(3), shared], 1)
        .expect("valid limits");
    assert_eq!(
        decide(other.check("local", "ann").and("shared", "ann")).limits()[0].remaining(),
        1
    );
    assert_eq!(
        fixture.check("local").remaining(),
        2,
        "both limiters share the counter"
    );

    assert!(fixture.limiter.with_limits([local(0)], 1).is_err());
    assert!(fixture.limiter.with_limits([local(1)], 0).is_err());
}

#[test]
fn a_request_without_limits_is_allowed() {
    let fixture = Fixture::new([local(1)]);
    let decision = decide(fixture.limiter.request(&[], tollgate::store::Intent::Spend));
    assert!(decision.is_allowed() && decision.limits().is_empty() && decision.tightest().is_none());
    pollster::block_on(async { fixture.limiter.refund_request(&[]).await })
        .expect("nothing to refund");
}
