//! Golden texts for the bodies. They are sent in one line; here each is broken where a reader would
//! break it.

use super::*;

/// A body broken into lines, as it is sent.
pub(super) fn one_line(golden: &str) -> String {
    golden.lines().map(str::trim_start).collect()
}

#[test]
fn a_pass_has_the_members_of_the_interface() {
    let (limiter, _) = limiter([Limit::fixed_window("login", 5, 15 * MINUTE)]);
    let decision = limiter.check("login", "ann").now_or_never().unwrap();
    let expected = r#"{"allowed":true,"source":"store","degraded":false,"wait_ms":0,"limits":[
        {"name":"login","limit":5,"remaining":4,"reset_after_ms":900000,"retry_after_ms":null}]}"#;
    assert_eq!(DecisionBody::new(&decision).to_json(), one_line(expected));
    assert_eq!(Problem::denied(&decision), None);
    assert_eq!(Problem::unavailable(&decision), None);
}

#[test]
fn a_queue_says_how_long_to_hold_the_request() {
    let (limiter, _) = limiter([Limit::queue("partner", 5, Rate::per_second(3))]);
    assert!(
        limiter
            .check("partner", "ann")
            .now_or_never()
            .unwrap()
            .is_allowed()
    );
    let decision = limiter.check("partner", "ann").now_or_never().unwrap();
    assert_eq!(decision.wait(), Duration::from_micros(333_334));
    assert_eq!(DecisionBody::new(&decision).wait_ms, 334);
}

#[test]
fn a_pass_that_holds_a_place_says_what_to_release() {
    let (limiter, _) = limiter([Limit::concurrency("in-flight", 1, MINUTE)]);
    let held = limiter.check("in-flight", "ann").now_or_never().unwrap();
    let word = DecisionBody::new(&held).permit.unwrap();
    assert_eq!(word.len(), 32);
    assert_eq!(
        u128::from_str_radix(&word, 16).ok(),
        held.permit_id().map(crate::PermitId::get)
    );

    let denied = limiter.check("in-flight", "ann").now_or_never().unwrap();
    assert_eq!(DecisionBody::new(&denied).permit, None);
    assert!(!DecisionBody::new(&denied).to_json().contains("permit\":"));
}

#[test]
fn a_denial_by_two_limits_names_both_and_explains_the_longer() {
    let limits = [
        Limit::fixed_window("burst", 1, Duration::from_micros(1_500_500)),
        Limit::fixed_window("daily", 1, DAY),
        Limit::fixed_window("trial", 1, MINUTE).shadow(),
    ];
    let (limiter, _) = limiter(limits);
    let ask = || {
        limiter
            .check("burst", "ann")
            .and("daily", "ann")
            .and("trial", "ann")
            .now_or_never()
            .unwrap()
    };
    assert!(ask().is_allowed());
    let expected = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title":"Request cannot be satisfied as assigned quota has been exceeded",
        "status":429,
        "detail":"The limit \"daily\" has no room for this request now; try again in 86400 seconds.",
        "violated-policies":["burst","daily"],
        "allowed":false,"source":"store","degraded":false,"wait_ms":0,"limits":[
        {"name":"burst","limit":1,"remaining":0,"reset_after_ms":1501,"retry_after_ms":1501},
        {"name":"daily","limit":1,"remaining":0,"reset_after_ms":86400000,"retry_after_ms":86400000},
        {"name":"trial","limit":1,"remaining":0,"reset_after_ms":60000,"retry_after_ms":60000,"shadow":true}]}"#;
    assert_eq!(
        Problem::denied(&ask()).unwrap().to_json(),
        one_line(expected)
    );
}

#[test]
fn a_request_that_never_fits_is_told_so() {
    let (limiter, _) = limiter([Limit::fixed_window("api", 100, MINUTE)]);
    let decision = limiter
        .check("api", "ann")
        .cost(101)
        .now_or_never()
        .unwrap();
    let expected = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title":"Request cannot be satisfied as assigned quota has been exceeded",
        "status":429,
        "detail":"The request asks for more than the limit \"api\" holds (100); it will not pass later either.",
        "violated-policies":["api"],
        "allowed":false,"source":"store","degraded":false,"wait_ms":0,"limits":[
        {"name":"api","limit":100,"remaining":100,"reset_after_ms":0,"retry_after_ms":null,"never":true}]}"#;
    assert_eq!(
        Problem::denied(&decision).unwrap().to_json(),
        one_line(expected)
    );
}

#[test]
fn a_limit_that_refuses_under_two_keys_is_violated_once() {
    let (limiter, _) = limiter([Limit::fixed_window("login", 1, MINUTE)]);
    let ask = || {
        limiter
            .check("login", "ip")
            .and("login", "email")
            .now_or_never()
            .unwrap()
    };
    assert!(ask().is_allowed());
    assert_eq!(
        Problem::denied(&ask()).unwrap().violated_policies,
        ["login"]
    );
}

#[test]
fn bodies_are_what_serde_makes_of_them_whatever_they_hold() {
    let limits = [
        Limit::fixed_window("burst", 1, MINUTE),
        Limit::fixed_window("trial", 1, MINUTE).shadow(),
        Limit::concurrency("in-flight", 1, MINUTE),
    ];
    let (limiter, _) = limiter(limits);
    let ask = |cost| {
        limiter
            .check("burst", "ann")
            .limit_cost(cost)
            .and("trial", "ann")
            .and("in-flight", "ann")
    };
    let (passed, denied, never) = (
        ask(1).now_or_never().unwrap(),
        ask(1).now_or_never().unwrap(),
        ask(2).now_or_never().unwrap(),
    );
    for decision in [&passed, &denied, &never] {
        for text in [
            "plain",
            "",
            "quoted \" and \\",
            "lines\n\u{1f}\u{0}",
            "\u{7f}\u{fc}\u{1f980}",
        ] {
            let mut answer = DecisionBody::new(decision);
            answer.permit = Some(text.to_owned());
            assert_eq!(answer.to_json(), serde_json::to_string(&answer).unwrap());
            let Some(mut problem) = Problem::denied(decision) else {
                continue;
            };
            problem.detail = text.to_owned();
            problem.violated_policies.push(text);
            assert_eq!(problem.to_json(), serde_json::to_string(&problem).unwrap());
        }
    }
    assert!(passed.is_allowed() && !denied.is_allowed() && never.is_never());
}
