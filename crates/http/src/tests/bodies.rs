//! Golden tests of the bodies. They are sent as one line; the tests break them up for readability.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use tollgate::Lockout;

use super::*;

/// Joins the lines of a golden body.
pub(super) fn one_line(golden: &str) -> String {
    golden.lines().map(str::trim_start).collect()
}

#[test]
fn an_allowed_request_has_the_documented_members() {
    let (limiter, _) = limiter([Limit::fixed_window("login", 5, 15 * MINUTE)]);
    let decision = limiter.check("login", "ann").try_now().unwrap();

    let expected = r#"{"allowed":true,"source":"store","degraded":false,"wait_ms":0,"limits":[
        {"name":"login","limit":5,"remaining":4,"reset_after_ms":900000,"retry_after_ms":null}]}"#;
    assert_eq!(DecisionBody::new(&decision).to_json(), one_line(expected));
    assert_eq!(Problem::denied(&decision), None);
}

#[test]
fn a_queue_reports_how_long_to_wait() {
    let (limiter, _) = limiter([Limit::queue("partner", 5, Rate::per_second(3))]);
    assert!(is_allowed(limiter.check("partner", "ann")));
    let decision = limiter.check("partner", "ann").try_now().unwrap();

    assert_eq!(decision.wait(), Duration::from_micros(333_334));
    assert_eq!(DecisionBody::new(&decision).wait_ms, 334);
}

#[test]
fn a_permit_is_reported_for_release() {
    let (limiter, _) = limiter([Limit::concurrency("in-flight", 1, MINUTE)]);
    let allowed = limiter.check("in-flight", "ann").try_now().unwrap();
    let permit = DecisionBody::new(&allowed).permit.unwrap();
    assert_eq!(permit.len(), 32);
    assert_eq!(
        u128::from_str_radix(&permit, 16).ok(),
        allowed.permit_id().map(tollgate::PermitId::get)
    );

    let denied = limiter.check("in-flight", "ann").try_now().unwrap();
    assert_eq!(DecisionBody::new(&denied).permit, None);
    assert!(!DecisionBody::new(&denied).to_json().contains("permit\":"));
}

#[test]
fn a_denial_by_two_limits_lists_both_and_details_the_longer() {
    let limits = [
        Limit::fixed_window("burst", 1, Duration::from_micros(1_500_500)),
        Limit::fixed_window("daily", 1, DAY),
        Limit::fixed_window("trial", 1, MINUTE).shadow(),
    ];
    let (limiter, _) = limiter(limits);
    let check = || {
        limiter
            .check("burst", "ann")
            .and("daily", "ann")
            .and("trial", "ann")
            .try_now()
            .unwrap()
    };
    assert!(check().is_allowed());

    let expected = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title":"Request cannot be satisfied as assigned quota has been exceeded",
        "status":429,
        "detail":"Limit \"daily\" exceeded; retry in 86400 seconds.",
        "violated-policies":["burst","daily"],
        "allowed":false,"source":"store","degraded":false,"wait_ms":0,"limits":[
        {"name":"burst","limit":1,"remaining":0,"reset_after_ms":1501,"retry_after_ms":1501},
        {"name":"daily","limit":1,"remaining":0,
        "reset_after_ms":86400000,"retry_after_ms":86400000},
        {"name":"trial","limit":1,"remaining":0,
        "reset_after_ms":60000,"retry_after_ms":60000,"shadow":true}]}"#;
    assert_eq!(
        Problem::denied(&check()).unwrap().to_json(),
        one_line(expected)
    );
}

#[test]
fn a_request_that_can_never_pass_is_reported_as_such() {
    let (limiter, _) = limiter([Limit::fixed_window("api", 100, MINUTE)]);
    let decision = limiter.check("api", "ann").cost(101).try_now().unwrap();

    let expected = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title":"Request cannot be satisfied as assigned quota has been exceeded",
        "status":429,
        "detail":"The cost exceeds limit \"api\" (100); the request can never pass.",
        "violated-policies":["api"],
        "allowed":false,"source":"store","degraded":false,"wait_ms":0,"limits":[
        {"name":"api","limit":100,"remaining":100,
        "reset_after_ms":0,"retry_after_ms":null,"never":true}]}"#;
    assert_eq!(
        Problem::denied(&decision).unwrap().to_json(),
        one_line(expected)
    );
}

#[test]
fn a_limit_that_denies_two_keys_is_listed_once() {
    let (limiter, _) = limiter([Limit::fixed_window("login", 1, MINUTE)]);
    let check = || {
        limiter
            .check("login", "ip")
            .and("login", "email")
            .try_now()
            .unwrap()
    };

    assert!(check().is_allowed());
    assert_eq!(
        Problem::denied(&check()).unwrap().violated_policies,
        ["login"]
    );
}

#[test]
fn bodies_are_equal_to_what_serde_writes() {
    let limits = [
        Limit::fixed_window("burst", 1, MINUTE),
        Limit::fixed_window("trial", 1, MINUTE).shadow(),
        Limit::concurrency("in-flight", 1, MINUTE),
    ];
    let (limiter, _) = limiter(limits);
    let check = |cost| {
        limiter
            .check("burst", "ann")
            .limit_cost(cost)
            .and("trial", "ann")
            .and("in-flight", "ann")
    };

    let (allowed, denied, never) = (
        check(1).try_now().unwrap(),
        check(1).try_now().unwrap(),
        check(2).try_now().unwrap(),
    );

    for decision in [&allowed, &denied, &never] {
        for text in [
            "plain",
            "",
            "quoted \" and \\",
            "lines\n\u{1f}\u{0}",
            "\u{7f}\u{fc}\u{1f980}",
        ] {
            let mut body = DecisionBody::new(decision);
            body.permit = Some(text.to_owned());
            assert_eq!(body.to_json(), serde_json::to_string(&body).unwrap());

            let Some(mut problem) = Problem::denied(decision) else {
                continue;
            };
            problem.detail = text.into();
            problem.code = Some("a-code");
            problem.retryable = Some(true);
            problem.violated_policies.push(text);
            assert_eq!(problem.to_json(), serde_json::to_string(&problem).unwrap());
        }
    }
    assert!(allowed.is_allowed() && !denied.is_allowed() && never.is_never());
}

#[test]
fn a_problem_without_a_denial_is_described_by_its_status() {
    let mut problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "a \"quoted\" word");
    problem.code = Some("bad-word");
    problem.retryable = Some(false);
    let expected = r#"{"type":"about:blank","title":"Unprocessable Content","status":422,
        "detail":"a \"quoted\" word","code":"bad-word","retryable":false}"#;
    assert_eq!(problem.to_json(), one_line(expected));
    assert_eq!(problem.to_json(), serde_json::to_string(&problem).unwrap());

    let response = problem.to_response();
    assert_eq!(response.status(), 422);
    assert_eq!(response.headers()[CONTENT_TYPE], PROBLEM_JSON);
    assert_eq!(response.body(), problem.to_json().as_bytes());
}

#[test]
fn a_lockout_has_a_type_of_its_own() {
    let lockout = Lockout::new(1, MINUTE, 15 * MINUTE).unwrap();
    let (limiter, _) = limiter([Limit::fixed_window("login", 1, MINUTE).lockout(lockout)]);
    assert!(
        limiter
            .check("login", "ann")
            .try_now()
            .unwrap()
            .is_allowed()
    );
    let decision = limiter.check("login", "ann").try_now().unwrap();

    let expected = r#"{
        "type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
        "title":"Request not satisfied due to detection of abnormal request pattern",
        "status":429,
        "detail":"Limit \"login\" was exceeded too often; retry in 900 seconds.",
        "violated-policies":["login"],
        "allowed":false,"source":"store","degraded":false,"wait_ms":0,"limits":[
        {"name":"login","limit":1,"remaining":0,
        "reset_after_ms":900000,"retry_after_ms":900000,"locked_out":true}]}"#;
    let problem = Problem::denied(&decision).unwrap();
    assert_eq!(problem.to_json(), one_line(expected));
    assert_eq!(problem.kind, ABNORMAL_USAGE_DETECTED);
}
