use std::time::Duration;

use tollgate::{Calendar, Rate};

use super::*;

#[test]
fn integers_have_only_digits() {
    assert_eq!(integer("0"), Ok(0));
    assert_eq!(integer("1_000_000"), Ok(1_000_000));
    for invalid in [
        "", "_1", "1_", "1__0", "-1", "0x10", "1,000", "ten", "inf", "nan",
    ] {
        assert_eq!(integer(invalid), Err(ValueError::Unexpected), "{invalid}");
    }

    assert_eq!(
        integer("18446744073709551616"),
        Err(ValueError::Reason(TOO_LARGE))
    );
    assert_eq!(
        integer("1e6"),
        Err(ValueError::Suggestion("write 1000000".into()))
    );
    assert_eq!(
        integer("5.0"),
        Err(ValueError::Suggestion("write 5".into()))
    );
    assert_eq!(integer("+1"), Err(ValueError::Suggestion("write 1".into())));
    assert_eq!(integer("1.5"), Err(ValueError::Unexpected));
}

#[test]
fn durations_require_a_unit() {
    for (text, micros) in [
        ("500us", 500),
        ("10ms", 10_000),
        ("1s", 1_000_000),
        ("1m", 60_000_000),
        ("1 minute", 60_000_000),
        ("90 seconds", 90_000_000),
        ("15m", 900_000_000),
        ("2 hrs", 7_200_000_000),
        ("1d", 86_400_000_000),
        ("1w", 604_800_000_000),
    ] {
        assert_eq!(duration(text), Ok(Duration::from_micros(micros)), "{text}");
    }
    for invalid in [
        "",
        "s",
        "1",
        "1.5s",
        "-1s",
        "1h30m",
        "1 fortnight",
        "1M",
        "99999999999999999w",
        "1month",
        "2months",
    ] {
        assert!(duration(invalid).is_err(), "{invalid}");
    }
}

#[test]
fn an_aligned_window_is_a_unit_of_the_calendar() {
    for text in ["month", "1month", "1 month"] {
        assert_eq!(calendar(text), Ok(Calendar::Month), "{text}");
    }
    assert_eq!(calendar("60s"), Ok(Calendar::Minute));
    assert!(matches!(calendar("2s"), Err(ValueError::Noun("window", _))));
    assert!(calendar("2 months").is_err());
}

#[test]
fn rates_are_numbers_per_period() {
    for (text, expected) in [
        ("10/s", Rate::per_second(10)),
        ("6/minute", Rate::per_minute(6)),
        ("100/m", Rate::per_minute(100)),
        ("1_000 / hour", Rate::per_hour(1_000)),
        ("1/10s", Rate::new(1, Duration::from_secs(10))),
        ("5 per minute", Rate::per_minute(5)),
        ("5 per 2 days", Rate::new(5, Duration::from_secs(172_800))),
    ] {
        assert_eq!(rate(text), Ok(expected), "{text}");
    }
    for invalid in [
        "",
        "10",
        "/s",
        "10/",
        "1.5/s",
        "-1/s",
        "10/fortnight",
        "10/month",
        "10/s/s",
        "ten/s",
        "10 per",
    ] {
        assert!(rate(invalid).is_err(), "{invalid}");
    }

    assert_eq!(
        rate("10"),
        Err(ValueError::Suggestion(
            "the period is missing; write 10/s or 10/m".into()
        ))
    );
}

#[test]
fn sizes_and_ratios_are_parsed() {
    assert_eq!(bytes("1024"), Ok(1_024));
    assert_eq!(bytes("64KiB"), Ok(65_536));
    assert_eq!(bytes("64 kB"), Ok(64_000));
    assert_eq!(bytes("1MiB"), Ok(1 << 20));
    assert!(bytes("64K").is_err() && bytes("1.5MiB").is_err() && bytes("99999999999GiB").is_err());

    assert_eq!(ratio("0.8"), Ok(0.8));
    assert_eq!(ratio("1"), Ok(1.0));
    assert_eq!(
        ratio("80%"),
        Err(ValueError::Suggestion("write 0.8".into()))
    );
    assert!(
        ratio("1.1").is_err()
            && ratio("-0.1").is_err()
            && ratio("nan").is_err()
            && ratio("inf").is_err()
    );
}
