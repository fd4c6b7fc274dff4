use std::time::Duration;

use crate::algorithm::{Calendar, Quota, Rate};
use crate::consistency::Consistency;
use crate::limit::{FailurePolicy, Limit};

const MINUTE: Duration = Duration::from_secs(60);

fn error(json: &str) -> String {
    let error = serde_json::from_str::<Limit>(json).unwrap_err().to_string();
    let position = error.rfind(" at line").unwrap_or(error.len());
    error[..position].to_owned()
}

/// The error for a limit named `a` with these other fields.
fn error_in(fields: &str) -> String {
    error(&format!(r#"{{"name": "a", {fields}}}"#))
}

/// What stores and limiters know of a limit.
fn summary(limit: &Limit) -> (String, Quota, Consistency, FailurePolicy, bool) {
    let rule = limit.validate().unwrap();
    (
        rule.name().to_string(),
        *rule.quota(),
        rule.consistency(),
        rule.on_store_failure(),
        rule.is_shadow(),
    )
}

#[test]
fn limits_of_every_algorithm_are_written_and_read_again() {
    for (limit, json) in [
        (
            Limit::fixed_window("a", 5, Duration::from_millis(1_500)),
            r#"{"name":"a","algorithm":"fixed_window","limit":5,"window":"1500ms"}"#,
        ),
        (
            Limit::calendar_window("a", 5, Calendar::Month),
            r#"{"name":"a","algorithm":"fixed_window","limit":5,"window":"1month","align":"clock"}"#,
        ),
        (
            Limit::sliding_window("a", 5, MINUTE),
            r#"{"name":"a","algorithm":"sliding_window","limit":5,"window":"1m"}"#,
        ),
        (
            Limit::sliding_log("a", 5, 60 * 24 * MINUTE),
            r#"{"name":"a","algorithm":"sliding_log","limit":5,"window":"1d"}"#,
        ),
        (
            Limit::token_bucket("a", 5, Rate::per_minute(100)),
            r#"{"name":"a","algorithm":"token_bucket","capacity":5,"refill_rate":"100/m"}"#,
        ),
        (
            Limit::leaky_bucket("a", 5, Rate::new(3, Duration::from_millis(700))),
            r#"{"name":"a","algorithm":"leaky_bucket","capacity":5,"leak_rate":"3/700ms","mode":"meter"}"#,
        ),
        (
            Limit::queue("a", 5, Rate::per_second(10_000_000)),
            r#"{"name":"a","algorithm":"leaky_bucket","capacity":5,"leak_rate":"10000000/s","mode":"queue"}"#,
        ),
        (
            Limit::concurrency("a", 5, Duration::from_secs(30)),
            r#"{"name":"a","algorithm":"concurrency","limit":5,"permit_timeout":"30s"}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&limit).unwrap(), json);
        let read: Limit = serde_json::from_str(json).unwrap();
        assert_eq!(summary(&read), summary(&limit), "{json}");
    }
}

#[test]
fn windows_that_are_aligned_to_the_clock_keep_their_unit() {
    for unit in [
        Calendar::Second,
        Calendar::Minute,
        Calendar::Hour,
        Calendar::Day,
        Calendar::Month,
    ] {
        let limit = Limit::calendar_window("a", 5, unit);
        let json = serde_json::to_string(&limit).unwrap();
        let read: Limit = serde_json::from_str(&json).unwrap();
        assert_eq!(summary(&read), summary(&limit), "{json}");
    }

    let json =
        r#"{"name":"a","algorithm":"fixed_window","limit":5,"window":"1m","align":"first_hit"}"#;
    let read: Limit = serde_json::from_str(json).unwrap();
    assert_eq!(
        summary(&read),
        summary(&Limit::fixed_window("a", 5, MINUTE))
    );
}

#[test]
fn options_are_written_and_read_again() {
    let json = r#"{"name":"chat","algorithm":"token_bucket","capacity":10,"refill_rate":"1/s","consistency":"leased","on_store_failure":"local","shadow":true}"#;
    let limit = Limit::token_bucket("chat", 10, Rate::per_second(1))
        .consistency(Consistency::Leased)
        .on_store_failure(FailurePolicy::Local)
        .shadow();

    let read: Limit = serde_json::from_str(json).unwrap();
    assert_eq!(summary(&read), summary(&limit));
    assert_eq!(serde_json::to_string(&limit).unwrap(), json);
}

#[test]
fn the_names_of_options_are_those_of_configurations() {
    for consistency in [
        Consistency::Strict,
        Consistency::Leased,
        Consistency::Eventual,
        Consistency::Local,
    ] {
        let json = serde_json::to_value(consistency).unwrap();
        assert_eq!(json, consistency.as_str());
    }
    for policy in [
        FailurePolicy::Allow,
        FailurePolicy::Deny,
        FailurePolicy::Local,
    ] {
        assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
    }
}

#[test]
fn rates_are_read_per_unit_and_per_duration() {
    for (text, rate) in [
        ("6/m", Rate::per_minute(6)),
        ("1/10s", Rate::per_minute(6)),
        ("2/h", Rate::per_hour(2)),
        ("3/d", Rate::per_day(3)),
        ("5/ms", Rate::per_second(5_000)),
        ("1/7us", Rate::new(1, Duration::from_micros(7))),
    ] {
        let json = format!(
            r#"{{"name":"a","algorithm":"token_bucket","capacity":9,"refill_rate":"{text}"}}"#
        );
        let read: Limit = serde_json::from_str(&json).unwrap();
        let limit = Limit::token_bucket("a", 9, rate);
        assert_eq!(summary(&read), summary(&limit), "{text}");
    }
}

#[test]
fn errors_name_unknown_missing_and_misplaced_fields() {
    for (fields, expected) in [
        (
            r#""algorithm": "sliding_window", "window": "1m""#,
            "missing field `limit`",
        ),
        (
            r#""algorithm": "leaky_bucket", "capacity": 1"#,
            "missing field `leak_rate`",
        ),
        (r#""limit": 1, "window": "1m""#, "missing field `algorithm`"),
        (
            r#""algorithm": "token_bucket", "capacity": 1, "refill_rate": "1/s", "window": "1m""#,
            "unknown field `window`, expected `capacity` or `refill_rate`",
        ),
        (
            r#""algorithm": "sliding_log", "limit": 1, "window": "1m", "shadw": true"#,
            "unknown field `shadw`, expected `limit` or `window`",
        ),
        (
            r#""algorithm": "sliding_log", "limit": 1, "window": "1m", "limit": 2"#,
            "duplicate field `limit`",
        ),
        (
            r#""algorithm": "leaky", "limit": 1"#,
            "unknown variant `leaky`, expected one of `fixed_window`, `sliding_window`, \
             `sliding_log`, `token_bucket`, `leaky_bucket`, `concurrency`",
        ),
        (
            r#""algorithm": "sliding_log", "limit": 1, "window": "1m", "consistency": "exact""#,
            "unknown variant `exact`, expected one of `strict`, `leased`, `eventual`, `local`",
        ),
        (
            r#""algorithm": "fixed_window", "limit": 1, "window": "1m", "align": "day""#,
            "unknown variant `day`, expected `first_hit` or `clock`",
        ),
    ] {
        assert_eq!(error_in(fields), expected);
    }
    assert_eq!(
        error(r#"{"algorithm": "sliding_log", "limit": 1, "window": "1m"}"#),
        "missing field `name`"
    );
}

#[test]
fn errors_show_the_value_found_and_a_valid_one() {
    let duration = "a whole number with a unit, such as 500ms, 10s, 1m, 1h or 1d";
    for found in [
        "60",
        "1.5s",
        "10 s",
        "1y",
        "",
        "s",
        "-1s",
        "1month",
        "99999999999999999d",
    ] {
        let window = format!(r#""algorithm": "sliding_log", "limit": 1, "window": "{found}""#);
        let expected = format!("invalid duration {found:?}; expected {duration}");
        assert_eq!(error_in(&window), expected);
    }

    let rate = "a whole number per period, such as 10/s, 6/m or 1/10s";
    for found in ["10", "1/y", "1.5/s", "/s", "+1/s", "1/", "1/10"] {
        let bucket =
            format!(r#""algorithm": "token_bucket", "capacity": 1, "refill_rate": "{found}""#);
        let expected = format!("invalid rate {found:?}; expected {rate}");
        assert_eq!(error_in(&bucket), expected);
    }

    for (fields, expected) in [
        (
            r#""algorithm": "fixed_window", "limit": 1, "window": "10s", "align": "clock""#,
            "invalid window \"10s\"; expected 1s, 1m, 1h, 1d or 1month, because of `align: clock`",
        ),
        (
            r#""algorithm": "sliding_log", "limit": 1, "window": 60"#,
            "invalid type: integer `60`, expected a string",
        ),
        (
            r#""algorithm": "sliding_log", "limit": -1, "window": "1m""#,
            "invalid value: integer `-1`, expected u64",
        ),
        (
            r#""algorithm": "sliding_log", "limit": 1.5, "window": "1m""#,
            "invalid type: floating point `1.5`, expected u64",
        ),
    ] {
        assert_eq!(error_in(fields), expected);
    }
}

#[test]
fn invalid_limits_are_neither_read_nor_written() {
    let no_units = Limit::sliding_log("a", 0, MINUTE);
    let invalid_name = Limit::sliding_log("a b", 1, MINUTE);
    let text = |limit: &Limit| limit.validate().unwrap_err().to_string();

    assert_eq!(
        error_in(r#""algorithm": "sliding_log", "limit": 0, "window": "1m""#),
        text(&no_units)
    );
    assert_eq!(
        error(r#"{"name": "a b", "algorithm": "sliding_log", "limit": 1, "window": "1m"}"#),
        text(&invalid_name)
    );
    let error = serde_json::to_string(&no_units).unwrap_err();
    assert_eq!(error.to_string(), text(&no_units));
}

#[test]
fn a_lockout_is_read_and_written() {
    let text = r#"{"name":"login","algorithm":"sliding_log","limit":5,"window":"1m","lockout":{"after":10,"within":"10m","for":"15m","factor":4,"max":"1d"}}"#;
    let limit: Limit = serde_json::from_str(text).unwrap();
    let lockout = *limit.validate().unwrap().lockout().unwrap();
    assert_eq!((lockout.after(), lockout.factor()), (10, 4));
    assert_eq!(lockout.max(), crate::Micros::from_secs(86_400));
    assert_eq!(serde_json::to_string(&limit).unwrap(), text);

    let leased = text.replace("\"limit\":5", "\"limit\":5,\"consistency\":\"leased\"");
    let error = serde_json::from_str::<Limit>(&leased).unwrap_err();
    let expected = "a lockout cannot count every denial with consistency leased; \
                    use strict, or local for each replica by itself";
    assert!(error.to_string().contains(expected), "{error}");
}
