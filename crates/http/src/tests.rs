//! Golden tests of the header fields. Each test states all fields, so it also covers those that
//! must be absent.

mod bodies;
mod denials;
mod profiles;
mod unavailable;

use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use sfv::{BareItem, List, ListEntry, Parser};
use tollgate::limiter::{Check, Demands};
use tollgate::{
    Calendar, Clock, Decision, Limit, Limiter, ManualClock, MemoryStore, Micros, QuotaUnit, Rate,
    TokenBucket,
};

use super::*;

const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

/// A limiter at 2027-01-01 00:00:00 UTC, second 1,798,761,600 of the epoch.
fn limiter(limits: impl IntoIterator<Item = Limit>) -> (Limiter, ManualClock) {
    let clock = ManualClock::default();
    (
        Limiter::new(MemoryStore::builder().clock(clock.clone()).build(), limits).unwrap(),
        clock,
    )
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "a check is made for one call"
)]
fn is_allowed<'a, D: Demands<'a>>(check: Check<'a, D>) -> bool {
    check.try_now().unwrap().is_allowed()
}

/// All fields of a decision made at a time.
fn sent_at(decision: &Decision, now: Micros) -> String {
    let mut headers = HeaderMap::new();
    Fields::new(decision, EnabledFields::default(), now).add_to(&mut headers);

    let fields: Vec<_> = Fields::new(decision, EnabledFields::default(), now)
        .into_iter()
        .collect();

    // Adding to a map and iterating give the same fields in the same order.
    assert_eq!(headers.len(), fields.len());
    for ((name, value), (added_name, added)) in fields.iter().zip(&headers) {
        assert_eq!(
            (&*name.to_ascii_lowercase(), value),
            (added_name.as_str(), added)
        );
    }

    let line =
        |(name, value): &(&str, HeaderValue)| [name, ": ", value.to_str().unwrap(), "\n"].concat();
    fields.iter().map(line).collect()
}

/// All fields of a decision made at the clock's start. Asserts that the structured ones parse.
fn sent(decision: &Decision) -> String {
    let text = sent_at(decision, ManualClock::default().now());

    for line in text.lines().filter(|line| line.starts_with("RateLimit")) {
        let (name, value) = line.split_once(": ").unwrap();
        assert!(!parsed(value).is_empty(), "{name}: {value}");
    }
    text
}

/// The value of one field.
fn field(decision: &Decision, name: &HeaderName) -> String {
    let mut headers = HeaderMap::new();
    Fields::new(decision, EnabledFields::default(), Micros::ZERO).add_to(&mut headers);
    headers[name].to_str().unwrap().to_owned()
}

/// The members of a structured list, parsed by the crate `sfv`: names and integer parameters.
fn parsed(value: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let list: List = Parser::new(value).parse().unwrap();

    let member = |entry: &ListEntry| {
        let ListEntry::Item(item) = entry else {
            panic!("an inner list in {value}")
        };
        let BareItem::String(name) = &item.bare_item else {
            panic!("not a string in {value}")
        };
        let integer = |(key, value): (&sfv::Key, &BareItem)| {
            (
                key.as_str().to_owned(),
                value.as_integer().map(i64::from).unwrap(),
            )
        };
        let numbers = item.params.iter().filter(|(key, value)| {
            assert_eq!(
                key.as_str() == "qu",
                value.as_string().is_some(),
                "{value:?}"
            );
            key.as_str() != "qu"
        });
        (name.as_str().to_owned(), numbers.map(integer).collect())
    };

    list.iter().map(member).collect()
}

#[test]
fn an_allowed_request_has_no_retry_after() {
    let (limiter, _) = limiter([Limit::fixed_window("burst", 100, MINUTE)]);
    let decision = limiter.check("burst", "ann").cost(50).try_now().unwrap();

    let expected = r#"RateLimit-Policy: "burst";q=100;w=60
RateLimit: "burst";r=50;t=60
X-RateLimit-Limit: 100
X-RateLimit-Remaining: 50
X-RateLimit-Reset: 1798761660
"#;
    assert_eq!(sent(&decision), expected);
}

#[test]
fn a_denied_request_has_retry_after() {
    let (limiter, clock) = limiter([Limit::fixed_window("burst", 1, MINUTE)]);
    assert!(is_allowed(limiter.check("burst", "ann")));
    clock.advance(Duration::from_millis(30_001));
    let decision = limiter.check("burst", "ann").try_now().unwrap();

    let expected = r#"RateLimit-Policy: "burst";q=1;w=60
RateLimit: "burst";r=0;t=30
X-RateLimit-Limit: 1
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1798761630
Retry-After: 30
"#;
    assert_eq!(sent(&decision), expected);
}

#[test]
fn a_denying_bucket_reports_when_the_request_passes_not_when_it_is_full() {
    let (limiter, _) = limiter([Limit::token_bucket("burst", 10, Rate::per_second(1))]);
    assert!(is_allowed(limiter.check("burst", "ann").cost(9)));
    let decision = limiter.check("burst", "ann").cost(3).try_now().unwrap();

    let expected = r#"RateLimit-Policy: "burst";q=10;w=10
RateLimit: "burst";r=1;t=2
X-RateLimit-Limit: 10
X-RateLimit-Remaining: 1
X-RateLimit-Reset: 1798761609
Retry-After: 2
"#;
    assert_eq!(sent(&decision), expected);
}

#[test]
fn t_is_when_more_is_available_not_when_everything_is() {
    let ten_a_minute = Rate::per_minute(10);
    let (limiter, clock) = limiter([
        Limit::token_bucket("bucket", 10, ten_a_minute),
        Limit::queue("queue", 10, ten_a_minute),
        Limit::sliding_window("window", 10, MINUTE),
        Limit::sliding_log("log", 10, MINUTE),
        Limit::fixed_window("fixed", 10, MINUTE),
        Limit::concurrency("in-flight", 10, MINUTE),
        Limit::fixed_window("unused", 10, MINUTE),
    ]);
    let check = |cost| {
        limiter
            .check("bucket", "ann")
            .and("queue", "ann")
            .and("window", "ann")
            .and("log", "ann")
            .and("fixed", "ann")
            .and("in-flight", "ann")
            .cost(cost)
            .and("unused", "ann")
            .limit_cost(0)
            .try_now()
            .unwrap()
    };

    let state = field(&check(2), &RATE_LIMIT);
    let expected = r#""bucket";r=8;t=6, "queue";r=8;t=6, "window";r=8;t=90, "log";r=8;t=60, "fixed";r=8;t=60, "in-flight";r=8, "unused";r=10"#;
    assert_eq!(state, expected);

    clock.advance(Duration::from_secs(10));
    let state = field(&check(1), &RATE_LIMIT);
    let expected = r#""bucket";r=8;t=2, "queue";r=8;t=2, "window";r=7;t=70, "log";r=7;t=50, "fixed";r=7;t=50, "in-flight";r=7, "unused";r=10"#;
    assert_eq!(state, expected);
}

#[test]
fn retry_after_is_never_earlier_than_t() {
    let (limiter, _) = limiter([
        Limit::fixed_window("burst", 1, MINUTE),
        Limit::fixed_window("daily", 9, DAY),
        Limit::token_bucket("bucket", 9, Rate::per_minute(9)),
    ]);
    let check = || {
        limiter
            .check("burst", "ann")
            .and("daily", "ann")
            .and("bucket", "ann")
            .try_now()
            .unwrap()
    };
    assert!(check().is_allowed());

    // More of the day's units would be available only long after the request passes.
    let expected = r#"RateLimit-Policy: "burst";q=1;w=60, "daily";q=9;w=86400, "bucket";q=9;w=60
RateLimit: "burst";r=0;t=60, "daily";r=8, "bucket";r=8;t=7
X-RateLimit-Limit: 1
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1798761660
Retry-After: 60
"#;
    assert_eq!(sent(&check()), expected);
}

#[test]
fn retry_after_is_the_longest_retry_time_of_all_limits() {
    let (limiter, _) = limiter([
        Limit::fixed_window("daily", 1, DAY),
        Limit::fixed_window("burst", 1, MINUTE),
    ]);
    let check = || {
        limiter
            .check("daily", "ann")
            .and("burst", "ann")
            .try_now()
            .unwrap()
    };
    assert!(check().is_allowed());

    let expected = r#"RateLimit-Policy: "daily";q=1;w=86400, "burst";q=1;w=60
RateLimit: "daily";r=0;t=86400, "burst";r=0;t=60
X-RateLimit-Limit: 1
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1798848000
Retry-After: 86400
"#;
    assert_eq!(sent(&check()), expected);
}

#[test]
fn a_request_that_can_never_pass_has_no_retry_after() {
    let (limiter, _) = limiter([
        Limit::fixed_window("api", 100, MINUTE),
        Limit::fixed_window("burst", 1, MINUTE),
    ]);
    assert!(is_allowed(limiter.check("burst", "ann")));
    let decision = limiter
        .check("api", "ann")
        .limit_cost(101)
        .and("burst", "ann")
        .try_now()
        .unwrap();

    let expected = r#"RateLimit-Policy: "api";q=100;w=60, "burst";q=1;w=60
RateLimit: "api";r=100, "burst";r=0;t=60
X-RateLimit-Limit: 100
X-RateLimit-Remaining: 100
X-RateLimit-Reset: 1798761600
"#;
    assert_eq!(sent(&decision), expected);
}

#[test]
fn a_concurrency_limit_has_no_window() {
    let (limiter, _) = limiter([Limit::concurrency("in-flight", 1, Duration::from_secs(30))]);
    assert!(is_allowed(limiter.check("in-flight", "ann")));
    let decision = limiter.check("in-flight", "ann").try_now().unwrap();

    let expected = r#"RateLimit-Policy: "in-flight";q=1;qu="concurrent-requests"
RateLimit: "in-flight";r=0;t=30
X-RateLimit-Limit: 1
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1798761630
Retry-After: 30
"#;
    assert_eq!(sent(&decision), expected);
}

#[test]
fn a_calendar_month_ends_with_the_month() {
    let (limiter, clock) = limiter([Limit::calendar_window("monthly", 1, Calendar::Month)]);
    let february = Micros::from_secs(1_801_440_000);
    clock.set(february);
    assert!(is_allowed(limiter.check("monthly", "ann")));
    let decision = limiter.check("monthly", "ann").try_now().unwrap();

    let expected = r#"RateLimit-Policy: "monthly";q=1;w=2678400
RateLimit: "monthly";r=0;t=2419200
X-RateLimit-Limit: 1
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1803859200
Retry-After: 2419200
"#;
    assert_eq!(sent_at(&decision, february), expected);
}

#[test]
fn shadow_limits_are_omitted() {
    let shadow = Limit::fixed_window("trial", 1, DAY).shadow();
    let (limiter, _) = limiter([shadow, Limit::fixed_window("burst", 9, MINUTE)]);
    let check = || {
        limiter
            .check("trial", "ann")
            .and("burst", "ann")
            .try_now()
            .unwrap()
    };
    assert!(check().is_allowed());

    let expected = r#"RateLimit-Policy: "burst";q=9;w=60
RateLimit: "burst";r=7;t=60
X-RateLimit-Limit: 9
X-RateLimit-Remaining: 7
X-RateLimit-Reset: 1798761660
"#;
    assert_eq!(sent(&check()), expected);
    assert_eq!(sent(&limiter.check("trial", "ann").try_now().unwrap()), "");
}

#[test]
fn integers_are_capped_to_what_structured_fields_allow() {
    let (limiter, _) = limiter([Limit::fixed_window("huge", 1 << 53, MINUTE)]);
    let decision = limiter.check("huge", "ann").try_now().unwrap();

    let expected = r#"RateLimit-Policy: "huge";q=999999999999999;w=60
RateLimit: "huge";r=999999999999999;t=60
X-RateLimit-Limit: 9007199254740992
X-RateLimit-Remaining: 9007199254740991
X-RateLimit-Reset: 1798761660
"#;
    assert_eq!(sent(&decision), expected);
}

#[test]
fn every_valid_character_of_a_name_parses() {
    let name = "aZ09-_.:/";
    let (limiter, _) = limiter([Limit::fixed_window(name, 5, MINUTE)]);
    let decision = limiter.check(name, "ann").try_now().unwrap();

    let members = |key: [&str; 2], value: [i64; 2]| {
        vec![(
            name.to_owned(),
            vec![(key[0].to_owned(), value[0]), (key[1].to_owned(), value[1])],
        )]
    };
    assert_eq!(
        parsed(&field(&decision, &RATE_LIMIT_POLICY)),
        members(["q", "w"], [5, 60])
    );
    assert_eq!(
        parsed(&field(&decision, &RATE_LIMIT)),
        members(["r", "t"], [4, 60])
    );
}

#[test]
fn a_limit_with_two_keys_is_one_policy_unless_the_quotas_differ() {
    let (limiter, _) = limiter([Limit::token_bucket("plan", 10, Rate::per_second(1))]);
    let check = || {
        limiter
            .check("plan", "user")
            .and("plan", "team")
            .limit_cost(4)
    };
    let decision = check().try_now().unwrap();
    assert_eq!(field(&decision, &RATE_LIMIT_POLICY), r#""plan";q=10;w=10"#);
    assert_eq!(
        field(&decision, &RATE_LIMIT),
        r#""plan";r=9;t=1, "plan";r=6;t=1"#
    );

    let large = TokenBucket::new(100, Rate::per_second(1)).unwrap();
    let decision = check().quota(large).try_now().unwrap();
    assert_eq!(
        field(&decision, &RATE_LIMIT_POLICY),
        r#""plan";q=10;w=10, "plan";q=100;w=100"#
    );
}

#[test]
fn times_below_a_second_are_reported_as_one() {
    let (limiter, _) = limiter([Limit::sliding_log("fast", 1, Duration::from_millis(1))]);
    assert!(is_allowed(limiter.check("fast", "ann")));
    let decision = limiter.check("fast", "ann").try_now().unwrap();

    assert_eq!(field(&decision, &RATE_LIMIT_POLICY), r#""fast";q=1;w=1"#);
    assert_eq!(field(&decision, &RATE_LIMIT), r#""fast";r=0;t=1"#);
    assert_eq!(field(&decision, &RETRY_AFTER), "1");
}

#[test]
fn reset_rounds_up_the_sum_and_not_its_terms() {
    let (limiter, _) = limiter([Limit::sliding_log("api", 5, Duration::from_millis(1_500))]);
    let decision = limiter.check("api", "ann").try_now().unwrap();
    let reset = |now_ms| {
        let text = sent_at(&decision, Micros::from_millis(now_ms));
        text.lines().last().unwrap().to_owned()
    };
    assert_eq!(reset(10_500), "X-RateLimit-Reset: 12");
    assert_eq!(reset(10_501), "X-RateLimit-Reset: 13");
}

#[test]
fn disabled_fields_are_omitted() {
    let (limiter, _) = limiter([Limit::fixed_window("burst", 1, MINUTE)]);
    assert!(is_allowed(limiter.check("burst", "ann")));
    let decision = limiter.check("burst", "ann").try_now().unwrap();

    let names = |decision: &Decision, enabled: EnabledFields| -> Vec<&str> {
        let fields: Vec<_> = Fields::new(decision, enabled, Micros::ZERO)
            .into_iter()
            .collect();
        assert!(fields.is_empty() || enabled.apply_to(decision));
        fields.into_iter().map(|(name, _)| name).collect()
    };

    let none = EnabledFields {
        ietf: false,
        legacy: false,
        openai: false,
        anthropic: false,
        retry_after: false,
    };
    assert!(names(&decision, none).is_empty());
    assert!(!none.apply_to(&decision));
    assert_eq!(
        names(&decision, EnabledFields { ietf: true, ..none }),
        ["RateLimit-Policy", "RateLimit"]
    );

    let legacy = [
        "X-RateLimit-Limit",
        "X-RateLimit-Remaining",
        "X-RateLimit-Reset",
    ];
    assert_eq!(
        names(
            &decision,
            EnabledFields {
                legacy: true,
                ..none
            }
        ),
        legacy
    );
    assert_eq!(
        names(
            &decision,
            EnabledFields {
                retry_after: true,
                ..none
            }
        ),
        ["Retry-After"]
    );

    let unavailable = unavailable::limiter([Limit::fixed_window("burst", 1, MINUTE)]);
    assert_eq!(
        names(
            &unavailable::decide(unavailable.check("burst", "ann")),
            none
        ),
        ["X-RateLimit-Fallback"]
    );
}

#[test]
fn a_second_layer_adds_its_limits_and_the_tighter_one_is_described() {
    let (limiter, _) = limiter([
        Limit::fixed_window("wide", 100, MINUTE),
        Limit::fixed_window("tight", 5, MINUTE),
    ]);
    let decide = |name: &'static str| limiter.check(name, "ann").try_now().unwrap();
    let (wide, tight) = (decide("wide"), decide("tight"));

    for order in [[&wide, &tight], [&tight, &wide]] {
        let mut headers = HeaderMap::new();
        for decision in order {
            Fields::new(decision, EnabledFields::default(), Micros::ZERO).add_to(&mut headers);
        }

        assert_eq!(headers.get_all(RATE_LIMIT_POLICY).iter().count(), 2);
        assert_eq!(headers.get_all(RATE_LIMIT).iter().count(), 2);
        let legacy = [
            X_RATE_LIMIT_LIMIT,
            X_RATE_LIMIT_REMAINING,
            X_RATE_LIMIT_RESET,
        ];
        assert_eq!(legacy.map(|name| headers[name].clone()), ["5", "4", "60"]);
    }
}
