//! Envoy's rate limit service, called as Envoy calls it.

pub(crate) mod client;
mod costs;
mod errors;
mod lifecycle;
mod overrides;
pub(crate) mod reservations;

use tollgate_envoy::{
    Code, DescriptorStatus, Duration, Entry, RateLimit, RateLimitDescriptor, RateLimitRequest,
    RateLimitResponse, Unit,
};

use self::client::Client;
use crate::harness::Tollgate;

const LIMITS: &str = "
version: 1
limits:
  - { name: login, match: { path: /auth/login }, key: [client_ip, email], algorithm: sliding_log, limit: 2, window: 15m }
  - { name: tenant, key: [tenant], algorithm: fixed_window, limit: 3, window: 1d }
  - { name: plan, match: { domain: shop }, key: ['header:x-api-key'], algorithm: token_bucket, capacity: 10, refill_rate: 1/hour }
";

/// A descriptor with these entries.
pub(crate) fn described(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry {
        key: (*key).into(),
        value: (*value).to_owned().into(),
    };
    RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..Default::default()
    }
}

/// A request with these descriptors.
pub(crate) fn request(
    descriptors: impl IntoIterator<Item = RateLimitDescriptor>,
) -> RateLimitRequest {
    let descriptors = descriptors.into_iter().collect();
    RateLimitRequest {
        domain: "shop".into(),
        descriptors,
        hits_addend: 0,
    }
}

/// A request with one descriptor.
pub(crate) fn about(entries: &[(&str, &str)]) -> RateLimitRequest {
    request([described(entries)])
}

pub(crate) fn codes(response: &RateLimitResponse) -> Vec<Code> {
    response
        .statuses
        .iter()
        .map(DescriptorStatus::code)
        .collect()
}

/// The code, the limit's name and the remaining units.
pub(crate) fn summary(status: &DescriptorStatus) -> (Code, &str, u32) {
    let name = status
        .current_limit
        .as_ref()
        .map_or("", |limit| limit.name.as_str());
    (status.code(), name, status.limit_remaining)
}

pub(crate) fn header<'r>(response: &'r RateLimitResponse, name: &str) -> Option<&'r str> {
    let mut headers = response.response_headers_to_add.iter();
    headers
        .find(|header| header.key.eq_ignore_ascii_case(name.as_bytes()))
        .map(|header| header.value.as_str())
}

pub(crate) fn body(response: &RateLimitResponse) -> String {
    String::from_utf8(response.raw_body.to_vec()).expect("text")
}

#[test]
fn the_body_of_a_denial_can_be_set() {
    let denial = r#"
denial: { content_type: application/json, body: '{"error":"{detail}","in":{retry_after}}' }
"#;
    let service = Tollgate::with_config(&(LIMITS.to_owned() + denial));
    let mut client = Client::connect(service.grpc);
    let ann = about(&[
        ("path", "/auth/login"),
        ("remote_address", "192.0.2.1"),
        ("email", "ann@example.com"),
    ]);
    assert!(client.ask(&ann).raw_body.is_empty());
    client.ask(&ann);

    let denied = client.ask(&ann);
    assert_eq!(header(&denied, "content-type"), Some("application/json"));
    let secs = header(&denied, "retry-after").expect("it passes later");
    let expected =
        format!(r#"{{"error":"Limit \"login\" exceeded; retry in {secs} seconds.","in":{secs}}}"#);
    assert_eq!(body(&denied), expected);
}

#[test]
fn allowed_and_denied_responses_are_complete() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let ann = about(&[
        ("path", "/auth/login"),
        ("remote_address", "192.0.2.1"),
        ("email", "ann@example.com"),
    ]);
    let passed = client.ask(&ann);
    let fifteen_minutes = RateLimit {
        requests_per_unit: 2,
        unit: Unit::Minute.into(),
        name: "login".into(),
        unit_multiplier: Some(15),
    };
    let expected = DescriptorStatus {
        code: Code::Ok.into(),
        current_limit: Some(fifteen_minutes.clone()),
        limit_remaining: 1,
        duration_until_reset: Some(Duration {
            seconds: 900,
            nanos: 0,
        }),
    };
    assert_eq!(
        (passed.overall_code(), &passed.statuses),
        (Code::Ok, &vec![expected])
    );
    assert_eq!(
        header(&passed, "ratelimit-policy"),
        Some(r#""login";q=2;w=900"#)
    );
    assert_eq!(header(&passed, "ratelimit"), Some(r#""login";r=1;t=900"#));
    assert_eq!(header(&passed, "x-ratelimit-remaining"), Some("1"));
    for absent in ["retry-after", "content-type", "cache-control"] {
        assert_eq!(
            header(&passed, absent),
            None,
            "cache-control belongs to the upstream's response"
        );
    }
    assert!(passed.raw_body.is_empty());
    let [checked] = &passed.request_headers_to_add[..] else {
        panic!("one header for the upstream: {passed:?}")
    };
    assert_eq!(
        (&checked.key[..], checked.value.as_str()),
        (&b"x-ratelimit-checked"[..], "true")
    );

    client.ask(&ann);
    let refused = client.ask(&ann);
    let status = &refused.statuses[0];
    assert_eq!(
        (refused.overall_code(), summary(status)),
        (Code::OverLimit, (Code::OverLimit, "login", 0))
    );
    assert_eq!(status.current_limit, Some(fifteen_minutes));
    let seconds = status
        .duration_until_reset
        .expect("it passes later")
        .seconds;
    assert!((1..=900).contains(&seconds), "{seconds}");
    assert_eq!(
        header(&refused, "retry-after").map(str::to_owned),
        Some(seconds.to_string())
    );
    assert_eq!(
        header(&refused, "content-type"),
        Some("application/problem+json")
    );
    assert_eq!(header(&refused, "cache-control"), Some("no-store"));
    let body = body(&refused);
    assert!(
        body.contains("#quota-exceeded") && body.contains(r#""violated-policies":["login"]"#),
        "{body}"
    );
}

#[test]
fn limits_whose_attributes_a_descriptor_lacks_are_skipped() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let response = client.ask(&request([
        described(&[("tenant", "acme")]),
        described(&[("path", "/auth/login"), ("remote_address", "192.0.2.1")]),
        described(&[("generic_key", "anything")]),
    ]));
    assert_eq!(summary(&response.statuses[0]), (Code::Ok, "tenant", 2));
    for status in &response.statuses[1..] {
        assert_eq!(
            *status,
            DescriptorStatus {
                code: Code::Ok.into(),
                ..Default::default()
            }
        );
    }
    let nothing = client.ask(&about(&[("generic_key", "anything")]));
    assert_eq!(nothing.overall_code(), Code::Ok);
    assert!(nothing.response_headers_to_add.is_empty());
}

#[test]
fn a_limit_for_everyone_applies_to_every_descriptor() {
    let service = Tollgate::with_config(
        "
version: 1
limits:
  - { name: global, key: [], algorithm: fixed_window, limit: 5, window: 1h }
",
    );
    let mut client = Client::connect(service.grpc);
    let both = request([described(&[("a", "1")]), described(&[("b", "2")])]);
    // It is charged once for each of the two descriptors.
    for left in [3, 1] {
        let response = client.ask(&both);
        assert_eq!(
            response.statuses.iter().map(summary).collect::<Vec<_>>(),
            [(Code::Ok, "global", left); 2]
        );
    }
    assert_eq!(codes(&client.ask(&both)), [Code::OverLimit; 2]);
    assert_eq!(codes(&client.ask(&about(&[("a", "1")]))), [Code::Ok]);
}

#[test]
fn entries_are_matched_by_the_names_that_proxies_use() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let mut left = |request: &RateLimitRequest| {
        client.ask(request).statuses[0]
            .current_limit
            .as_ref()
            .map(|limit| limit.name.clone())
    };
    // With any spelling of the path and any query.
    for path in ["/auth/login?x=1", "//auth/%6cogin/", "/a/../auth/login"] {
        let asked = about(&[("path", path), ("remote_address", path), ("email", "a")]);
        assert_eq!(left(&asked), None, "no address, no decision: {path}");
        let asked = about(&[
            ("path", path),
            ("client_ip", "::1"),
            ("remote_address", "no"),
            ("email", path),
        ]);
        assert_eq!(left(&asked).as_deref(), Some("login"), "{path}");
    }
    assert_eq!(
        left(&about(&[("Header:X-API-Key", "k")])).as_deref(),
        Some("plan")
    );
    let elsewhere = RateLimitRequest {
        domain: "blog".into(),
        ..about(&[("header:x-api-key", "k")])
    };
    assert_eq!(left(&elsewhere), None);
}

#[test]
fn all_descriptors_are_charged_or_none() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    for _ in 0..3 {
        client.ask(&about(&[("tenant", "acme")]));
    }
    let both = request([
        described(&[("tenant", "acme")]),
        described(&[("header:x-api-key", "k")]),
    ]);
    for _ in 0..3 {
        let response = client.ask(&both);
        assert_eq!(response.overall_code(), Code::OverLimit);
        assert_eq!(
            summary(&response.statuses[0]),
            (Code::OverLimit, "tenant", 0)
        );
        assert_eq!(summary(&response.statuses[1]), (Code::Ok, "plan", 10));
    }
}

#[test]
fn a_shadow_limit_changes_nothing() {
    let service = Tollgate::with_config(
        "
version: 1
limits:
  - { name: trial, key: [tenant], algorithm: fixed_window, limit: 1, window: 1d, shadow: true }
",
    );
    let mut client = Client::connect(service.grpc);
    for _ in 0..3 {
        let response = client.ask(&about(&[("tenant", "acme")]));
        assert_eq!(
            response.statuses,
            [DescriptorStatus {
                code: Code::Ok.into(),
                ..Default::default()
            }]
        );
        assert!(response.response_headers_to_add.is_empty());
    }
}

#[test]
fn the_upstream_gets_a_permit_and_can_release_it() {
    let service = Tollgate::with_config(
        "
version: 1
limits:
  - { name: in-flight, key: [tenant], algorithm: concurrency, limit: 1, permit_timeout: 1h }
",
    );
    let mut client = Client::connect(service.grpc);
    let acme = about(&[("tenant", "acme")]);
    let held = client.ask(&acme);
    let limit = held.statuses[0].current_limit.as_ref().expect("a limit");
    assert_eq!((limit.unit(), limit.requests_per_unit), (Unit::Unknown, 1));
    assert_eq!(client.ask(&acme).overall_code(), Code::OverLimit);

    let word = held.request_headers_to_add.last().expect("a permit");
    assert_eq!(
        (&word.key[..], header(&held, "x-ratelimit-permit")),
        (&b"x-ratelimit-permit"[..], None)
    );
    let released = service.post("/v1/release", &format!(r#"{{"permit": "{}"}}"#, word.value));
    assert_eq!(
        (released.status, released.text().as_str()),
        (200, r#"{"released":true}"#)
    );
    assert_eq!(client.ask(&acme).overall_code(), Code::Ok);
}
