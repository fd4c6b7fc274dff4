//! Golden tests of header fields and bodies while the store is unavailable, for each failure
//! policy.

use http::StatusCode;
use tollgate::store::{Ending, Intent, SettleReply, Settlement, SpendReply, StoreFuture};
use tollgate::{Demand, FailurePolicy, Key, PermitId, Store, StoreError};

use super::bodies::one_line;
use super::*;

/// Waits for a decision, which the store's failure makes a policy decide.
pub(super) fn decide<'a, D: Demands<'a> + Unpin>(check: Check<'a, D>) -> Decision {
    pollster::block_on(check.into_future()).unwrap()
}

/// A store whose calls all time out.
#[derive(Debug)]
struct UnavailableStore;

impl Store for UnavailableStore {
    fn spend<'a>(
        &'a self,
        _: &[Demand<'_>],
        _: Intent,
        _: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        StoreFuture::ready(Err(StoreError::Timeout))
    }

    fn refund<'a>(&'a self, _: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        StoreFuture::ready(Err(StoreError::Timeout))
    }

    fn settle<'a>(&'a self, _: &[Settlement<'_>], _: Ending) -> StoreFuture<'a, Vec<SettleReply>> {
        StoreFuture::ready(Err(StoreError::Timeout))
    }

    fn reset<'a>(&'a self, _: &Key<'_>) -> StoreFuture<'a, ()> {
        StoreFuture::ready(Err(StoreError::Timeout))
    }

    fn release<'a>(&'a self, _: &Demand<'_>, _: PermitId) -> StoreFuture<'a, bool> {
        StoreFuture::ready(Err(StoreError::Timeout))
    }

    fn renew<'a>(&'a self, _: &Demand<'_>, _: PermitId) -> StoreFuture<'a, bool> {
        StoreFuture::ready(Err(StoreError::Timeout))
    }
}

/// A limiter whose store is unavailable, one of two replicas, at 2027-01-01 00:00:00 UTC.
pub(super) fn limiter(limits: impl IntoIterator<Item = Limit>) -> Limiter {
    let clock = ManualClock::default();
    Limiter::builder()
        .store(UnavailableStore)
        .clock(clock)
        .limits(limits)
        .expected_replicas(2)
        .build()
        .unwrap()
}

fn window(name: &str, limit: u64, policy: FailurePolicy) -> Limit {
    Limit::fixed_window(name, limit, MINUTE).on_store_failure(policy)
}

#[test]
fn policy_allow_reports_a_full_budget() {
    let limiter = limiter([window("burst", 100, FailurePolicy::Allow)]);
    let decision = decide(limiter.check("burst", "ann").cost(50));

    let expected = r#"RateLimit-Policy: "burst";q=100;w=60
RateLimit: "burst";r=100
X-RateLimit-Limit: 100
X-RateLimit-Remaining: 100
X-RateLimit-Reset: 1798761600
X-RateLimit-Fallback: true
"#;
    assert_eq!(sent(&decision), expected);
    assert_eq!(Problem::denied(&decision), None);

    let expected = r#"{"allowed":true,"source":"fallback","degraded":true,"degraded_reason":"store_timeout","wait_ms":0,"limits":[
        {"name":"burst","limit":100,"remaining":100,
        "reset_after_ms":0,"retry_after_ms":null,"fallback":"allow"}]}"#;
    assert_eq!(DecisionBody::new(&decision).to_json(), one_line(expected));
}

#[test]
fn policy_deny_is_status_503() {
    let limiter = limiter([window("login", 5, FailurePolicy::Deny)]);
    let decision = decide(limiter.check("login", "ann"));

    let expected = r#"RateLimit-Policy: "login";q=5;w=60
RateLimit: "login";r=0;t=1
X-RateLimit-Limit: 5
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1798761601
Retry-After: 1
X-RateLimit-Fallback: true
"#;
    assert_eq!(sent(&decision), expected);

    let expected = r#"{
        "type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
        "title":"Request cannot be satisfied due to temporary server capacity constraints",
        "status":503,
        "detail":"Limit \"login\" is temporarily unavailable; retry in 1 second.",
        "violated-policies":["login"],
        "allowed":false,"source":"fallback","degraded":true,"degraded_reason":"store_timeout","wait_ms":0,"limits":[
        {"name":"login","limit":5,"remaining":0,
        "reset_after_ms":1000,"retry_after_ms":1000,"fallback":"deny"}]}"#;
    assert_eq!(
        Problem::denied(&decision).unwrap().to_json(),
        one_line(expected)
    );
    assert!(decision.is_unavailable());
}

#[test]
fn policy_local_is_status_429() {
    let limiter = limiter([window("api", 4, FailurePolicy::Local)]);
    assert!(decide(limiter.check("api", "ann").cost(2)).is_allowed());
    let decision = decide(limiter.check("api", "ann"));

    let expected = r#"RateLimit-Policy: "api";q=2;w=60
RateLimit: "api";r=0;t=30
X-RateLimit-Limit: 2
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1798761660
Retry-After: 30
X-RateLimit-Fallback: true
"#;
    assert_eq!(sent(&decision), expected);

    let expected = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title":"Request cannot be satisfied as assigned quota has been exceeded",
        "status":429,
        "detail":"Limit \"api\" exceeded; retry in 30 seconds.",
        "violated-policies":["api"],
        "allowed":false,"source":"fallback","degraded":true,"degraded_reason":"store_timeout","wait_ms":0,"limits":[
        {"name":"api","limit":2,"remaining":0,
        "reset_after_ms":60000,"retry_after_ms":30000,"fallback":"local"}]}"#;
    assert_eq!(
        Problem::denied(&decision).unwrap().to_json(),
        one_line(expected)
    );
    assert!(!decision.is_unavailable());
}

#[test]
fn a_request_that_can_never_pass_is_status_429() {
    let limiter = limiter([window("login", 5, FailurePolicy::Deny)]);
    let decision = decide(limiter.check("login", "ann").cost(6));

    let problem = Problem::denied(&decision).unwrap();
    assert_eq!(problem.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(problem.kind, QUOTA_EXCEEDED);
    assert!(problem.decision.unwrap().limits[0].never);
}
