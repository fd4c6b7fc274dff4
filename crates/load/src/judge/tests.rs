//! Which limits the judge reports as exceeded, and which it must not.

use proptest::prelude::*;
use tollgate::Micros;
use tollgate_rules::Config;

use super::*;

fn configured(limits: &str) -> LimitJudge {
    let yaml = format!("defaults: {{expected_replicas: 2}}\nlimits:\n{limits}");
    let config = Config::read_from(yaml.as_bytes(), "test", &|_: &str| None).expect("it is right");
    LimitJudge::new(Rc::new(LoadPlan::for_tests(BoundSource::from_config(
        &config,
    ))))
}

fn params(key: u32) -> RequestParams {
    RequestParams {
        key,
        address: key,
        cost: None,
    }
}

fn span(from_us: u64, to_us: u64) -> TimeSpan {
    TimeSpan {
        from: Micros::new(from_us),
        to: Micros::new(to_us),
    }
}

/// An admission by a limit named `api`.
fn admission(limit: u64, window_s: Option<u64>, reset_after_ms: u64) -> ResponseDecision {
    let reset_after_ms = Some(reset_after_ms);
    let api = LimitStatus {
        name: "api".into(),
        limit,
        window_s,
        reset_after_ms,
        ..LimitStatus::default()
    };
    ResponseDecision {
        is_allowed: true,
        limits: vec![api],
        ..ResponseDecision::default()
    }
}

const FIXED: &str = "- {name: api, key: [user], algorithm: fixed_window, limit: 3, window: 1s}";

/// Twice the limit is fine across a window edge, but a fourth admission in one window is not.
#[test]
fn each_fixed_window_is_judged_by_its_reported_end() {
    let mut judge = configured(FIXED);
    let mut admit = |at_ms: u64, reset_after_ms| {
        judge.record_admission(
            params(0),
            span(at_ms * 1_000, at_ms * 1_000 + 500),
            &admission(3, None, reset_after_ms),
        );
        judge.exceeded().count()
    };
    for at_ms in [900, 910, 920] {
        assert_eq!(admit(at_ms, 1_000 - at_ms), 0);
    }
    for at_ms in [1_001, 1_011, 1_021] {
        assert_eq!(admit(at_ms, 2_000 - at_ms), 0, "another window");
    }
    assert_eq!(admit(1_031, 969), 1);
    let worst = judge
        .limit_reports()
        .remove(0)
        .worst
        .expect("it was exceeded");
    assert_eq!((worst.admitted, worst.key.as_str()), (4, "user=key-0"));
    assert!(
        (worst.over - 1.0).abs() < 1e-9 && worst.from_s < 1.1 && worst.to_s >= 2.0,
        "{worst:?}"
    );
}

#[test]
fn keys_have_counters_of_their_own() {
    let mut judge =
        configured("- {name: api, key: [user], algorithm: sliding_log, limit: 3, window: 1s}");
    for key in 0..100 {
        (0..3).for_each(|at| {
            judge.record_admission(params(key), span(at, at + 1), &admission(3, None, 1_000));
        });
    }
    assert_eq!(
        (judge.exceeded().count(), judge.limit_reports()[0].keys),
        (0, 100)
    );
    judge.record_admission(params(7), span(500, 501), &admission(3, None, 1_000));
    let verdict = judge.limit_reports().remove(0);
    assert!(verdict.exceeded && verdict.worst.is_some_and(|worst| worst.key == "user=key-7"));
}

/// The allowance is three units per replica here, and there are two replicas.
#[test]
fn eventual_limits_may_exceed_their_quota_by_the_documented_allowance() {
    let limit = "- {name: api, key: [user], algorithm: sliding_log, limit: 60, window: 1s, consistency: eventual}";
    let bucket = "- {name: api, key: [user], algorithm: token_bucket, capacity: 60, refill_rate: 1/h, consistency: eventual}";
    let exceeded_with = |limit: &str, count: u64| {
        let mut judge = configured(limit);
        (0..count).for_each(|at| {
            judge.record_admission(params(0), span(at, at + 1), &admission(60, None, 1_000));
        });
        judge.exceeded().count() > 0
    };
    assert!(!exceeded_with(bucket, 66) && exceeded_with(bucket, 67));
    assert!(exceeded_with(limit, 61), "a log is never eventual");
}

#[test]
fn a_limit_that_cannot_be_judged_has_a_reason() {
    let mut judge = configured(
        "- {name: api, key: [user], algorithm: concurrency, limit: 3, permit_timeout: 1s}",
    );
    judge.record_admission(params(0), span(0, 1), &admission(3, None, 0));
    assert!(
        judge.limit_reports()[0]
            .not_judged
            .as_deref()
            .is_some_and(|why| why.contains("requests in flight"))
    );
    let mut judge =
        configured("- {name: other, key: [user], algorithm: sliding_log, limit: 3, window: 1s}");
    judge.record_admission(params(0), span(0, 1), &admission(3, None, 0));
    assert!(
        judge.limit_reports()[0]
            .not_judged
            .as_deref()
            .is_some_and(|why| why.contains("no such limit"))
    );
    for (window_s, why) in [(None, "do not contain its window"), (Some(1), "too coarse")] {
        let mut judge = LimitJudge::new(Rc::new(LoadPlan::for_tests(BoundSource::Responses)));
        judge.record_admission(params(0), span(0, 1), &admission(3, window_s, 0));
        let verdict = judge.limit_reports().remove(0);
        assert!(
            verdict
                .not_judged
                .is_some_and(|reason| reason.contains(why))
                && verdict.worst.is_none()
        );
    }
}

/// A window reported as two seconds may last little more than one, and may admit twice its limit
/// across an edge.
#[test]
fn limits_known_from_responses_are_judged_loosely() {
    let exceeded_with = |count: u64| {
        let mut judge = LimitJudge::new(Rc::new(LoadPlan::for_tests(BoundSource::Responses)));
        (0..count).for_each(|at| {
            judge.record_admission(params(0), span(at, at + 1), &admission(10, Some(2), 0));
        });
        judge.exceeded().count() > 0
    };
    assert!(!exceeded_with(20) && exceeded_with(21));
}

#[test]
fn a_changed_quota_is_not_judged() {
    let mut judge = LimitJudge::new(Rc::new(LoadPlan::for_tests(BoundSource::Responses)));
    judge.record_admission(params(0), span(0, 1), &admission(1, Some(60), 0));
    (0..9).for_each(|at| {
        judge.record_admission(params(0), span(at, at + 1), &admission(100, Some(60), 0));
    });
    let verdict = judge.limit_reports().remove(0);
    assert!(
        !verdict.exceeded
            && verdict
                .not_judged
                .is_some_and(|why| why.contains("changed"))
    );
}

#[test]
fn the_number_of_tracked_keys_is_bounded() {
    let mut judge = configured(FIXED);
    let more = 10;
    let keys = u32::try_from(COUNTERS_MAX).unwrap() + more;
    (0..keys).for_each(|key| {
        judge.record_admission(params(key), span(0, 1), &admission(3, None, 1_000));
    });
    assert_eq!(
        (judge.limit_reports()[0].keys, judge.untracked),
        (COUNTERS_MAX, u64::from(more))
    );
}

proptest! {
    /// A real fixed window that starts with the first hit, with any delay of its responses.
    #[test]
    fn a_fixed_window_within_its_limit_is_never_exceeded(
        asked in proptest::collection::vec((0..400_000u64, 0..300_000u64, 0..300_000u64), 1..120),
    ) {
        let mut judge = configured(FIXED);
        let (mut now, mut end, mut used, mut log) = (1_000_000, 0, 0, Vec::new());
        for (pause, before, after) in asked {
            now += pause;
            if now >= end {
                (end, used) = (now + 1_000_000, 0);
            }
            if used < 3 {
                used += 1;
                log.push((span(now - before, now + after), u64::div_ceil(end - now, 1_000)));
            }
        }
        log.sort_by_key(|(span, _)| span.to);
        for (span, reset_after_ms) in &log {
            judge.record_admission(params(0), *span, &admission(3, None, *reset_after_ms));
        }
        prop_assert_eq!(judge.exceeded().count(), 0, "{:?}", judge.limit_reports());
    }
}
