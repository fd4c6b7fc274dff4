//! Overrides: limits that descriptors carry.

use tollgate_envoy::{
    Code, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitUnit, Unit,
};

use super::client::Client;
use super::{body, codes, described, header, request, summary};
use crate::harness::Tollgate;

const LIMITS: &str = "
version: 1
limits:
  - { name: tenant, key: [tenant], algorithm: fixed_window, limit: 1, window: 1d }
hash_keys: ['header:x-api-key']
hash_secret: sixteen-bytes-at-least
";

fn limited(
    requests_per_unit: u32,
    unit: RateLimitUnit,
    multiplier: Option<u32>,
    entries: &[(&str, &str)],
) -> RateLimitDescriptor {
    let limit = RateLimitOverride {
        requests_per_unit,
        unit: unit.into(),
        unit_multiplier: multiplier,
    };
    RateLimitDescriptor {
        limit: Some(limit),
        ..described(entries)
    }
}

fn yearly(requests: u32, entries: &[(&str, &str)]) -> RateLimitDescriptor {
    limited(requests, RateLimitUnit::Year, None, entries)
}

#[test]
fn an_override_replaces_the_configured_limits() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let asked = request([yearly(3, &[("tenant", "acme")])]);
    for left in [2, 1, 0] {
        assert_eq!(
            summary(&client.ask(&asked).statuses[0]),
            (Code::Ok, "override:year", left)
        );
    }
    let refused = client.ask(&asked);
    assert_eq!(
        (codes(&refused), header(&refused, "retry-after").is_some()),
        (vec![Code::OverLimit], true)
    );
    // The configured limit was not charged.
    let plain = request([described(&[("tenant", "acme")])]);
    assert_eq!(
        summary(&client.ask(&plain).statuses[0]),
        (Code::Ok, "tenant", 0)
    );
    // A larger limit for the same key: used units stay used.
    assert_eq!(
        summary(
            &client
                .ask(&request([yearly(10, &[("tenant", "acme")])]))
                .statuses[0]
        )
        .2,
        6
    );
}

#[test]
fn an_overrides_key_is_the_domain_and_every_entry_in_order() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let asked: [&[(&str, &str)]; 7] = [
        &[("a", "1"), ("b", "2")],
        &[("b", "2"), ("a", "1")],
        &[("a", "1")],
        &[("a", ""), ("b", "")],
        &[("a", "b")],
        &[("header:x-api-key", "secret")],
        &[],
    ];
    for domain in ["shop", "blog"] {
        for entries in asked {
            let request = RateLimitRequest {
                domain: domain.into(),
                ..request([yearly(1, entries)])
            };
            assert_eq!(
                codes(&client.ask(&request)),
                [Code::Ok],
                "{domain} {entries:?}"
            );
            assert_eq!(
                codes(&client.ask(&request)),
                [Code::OverLimit],
                "{domain} {entries:?}"
            );
        }
    }
}

#[test]
fn every_unit_has_its_own_window() {
    use RateLimitUnit::{Day, Hour, Minute, Month, Second, Year};
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let days = |days: i64| days * 86_400;
    let units = [
        (Second, None, ("override:second", Unit::Second, None), 1),
        (Minute, Some(0), ("override:minute", Unit::Minute, None), 60),
        (Hour, Some(1), ("override:hour", Unit::Hour, None), 3_600),
        (Day, None, ("override:day", Unit::Day, None), days(1)),
        (Day, Some(7), ("override:week", Unit::Week, None), days(7)),
        (Month, None, ("override:month", Unit::Month, None), days(31)),
        (Year, None, ("override:year", Unit::Year, None), days(366)),
        (
            Minute,
            Some(15),
            ("override:multiple", Unit::Minute, Some(15)),
            9,
        ),
        (
            Month,
            Some(3),
            ("override:multiple", Unit::Day, Some(93)),
            days(1),
        ),
    ];
    for (unit, multiplier, expected, longest) in units {
        let asked = request([limited(100, unit, multiplier, &[("user", "ann")])]);
        let status = client.ask(&asked).statuses.remove(0);
        let limit = status.current_limit.clone().expect("a limit");
        assert_eq!(
            (limit.name.as_str(), limit.unit(), limit.unit_multiplier),
            expected
        );
        assert_eq!((limit.requests_per_unit, status.limit_remaining), (100, 99));
        let seconds = status.duration_until_reset.expect("it ends").seconds;
        assert!((1..=longest).contains(&seconds), "{seconds} of {longest}");
    }
}

#[test]
fn a_multiple_of_a_unit_is_a_token_bucket() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    for days in [2, 5] {
        let asked = request([limited(
            2,
            RateLimitUnit::Day,
            Some(days),
            &[("user", "ann")],
        )]);
        let answers: Vec<Code> = (0..3).map(|_| client.ask(&asked).overall_code()).collect();
        assert_eq!(
            answers,
            [Code::Ok, Code::Ok, Code::OverLimit],
            "{days} days"
        );
    }
}

#[test]
fn an_override_of_zero_denies_and_charges_nothing() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let acme = [("tenant", "acme")];
    let asked = request([
        described(&acme),
        limited(0, RateLimitUnit::Hour, Some(2), &acme),
    ]);
    for _ in 0..2 {
        let response = client.ask(&asked);
        assert_eq!(
            (response.overall_code(), codes(&response)),
            (Code::OverLimit, vec![Code::Ok, Code::OverLimit])
        );
        let limit = response.statuses[1].current_limit.clone().expect("a limit");
        assert_eq!(
            (limit.requests_per_unit, limit.unit(), limit.unit_multiplier),
            (0, Unit::Hour, Some(2))
        );
        assert_eq!(
            header(&response, "content-type"),
            Some("application/problem+json")
        );
        assert!(
            body(&response).contains("#quota-exceeded"),
            "{}",
            body(&response)
        );
    }
    assert_eq!(codes(&client.ask(&request([described(&acme)]))), [Code::Ok]);
}

#[test]
fn an_invalid_override_is_an_error() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let (status, text) = client.fault(&request([limited(5, RateLimitUnit::Unknown, None, &[])]));
    assert_eq!(status, "3");
    assert!(text.contains("SECOND") && text.contains("YEAR"), "{text}");
    let (status, text) = client.fault(&request([limited(1, RateLimitUnit::Year, Some(2), &[])]));
    assert_eq!(status, "3");
    assert!(text.contains("30d"), "{text}");
    let (status, _) = client.fault(&request([limited(
        u32::MAX,
        RateLimitUnit::Year,
        Some(u32::MAX),
        &[],
    )]));
    assert_eq!(status, "3");
}
