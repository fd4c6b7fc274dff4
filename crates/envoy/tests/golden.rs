//! The messages against bytes that Envoy itself would write.
//!
//! The files in `golden` were made with Python's protobuf from the descriptions built into the
//! program of Envoy 1.40.0. They owe nothing to the files in `proto`, so a wrong number or type
//! there shows here.

use prost::Message as _;
use tollgate_envoy::{
    Code, DescriptorStatus, Duration, Entry, HeaderValue, RateLimit, RateLimitDescriptor,
    RateLimitOverride, RateLimitRequest, RateLimitResponse, RateLimitUnit, Unit,
};

const REQUEST: &[u8] = include_bytes!("golden/request.bin");
const RESPONSE: &[u8] = include_bytes!("golden/response.bin");
/// The same response with the fields that are reserved in `proto`.
const RESPONSE_WITH_MORE: &[u8] = include_bytes!("golden/response_with_more.bin");

fn entry(key: &str, value: &str) -> Entry {
    Entry {
        key: key.into(),
        value: value.to_owned().into(),
    }
}

/// Every field is set, numbers to the ends of their ranges.
fn request() -> RateLimitRequest {
    let limit = RateLimitOverride {
        requests_per_unit: 4_000_000_000,
        unit: RateLimitUnit::Year.into(),
        unit_multiplier: Some(2),
    };
    let full = RateLimitDescriptor {
        entries: vec![entry("remote_address", "203.0.113.7"), entry("path", "/ä")],
        limit: Some(limit),
        hits_addend: Some(u64::MAX),
        is_negative_hits: true,
    };
    // No cost and a cost of zero are two things.
    let free = RateLimitDescriptor {
        entries: vec![entry("k", "v")],
        hits_addend: Some(0),
        ..Default::default()
    };
    RateLimitRequest {
        domain: "shop".into(),
        descriptors: vec![full, free],
        hits_addend: 3,
    }
}

fn response() -> RateLimitResponse {
    let limit = RateLimit {
        requests_per_unit: 100,
        unit: Unit::Week.into(),
        name: "login".into(),
        unit_multiplier: Some(4),
    };
    let full = DescriptorStatus {
        code: Code::Ok.into(),
        current_limit: Some(limit),
        limit_remaining: 7,
        duration_until_reset: Some(Duration {
            seconds: 59,
            nanos: 999_000_000,
        }),
    };
    let bare = DescriptorStatus {
        code: Code::OverLimit.into(),
        ..Default::default()
    };
    let header = |key: &str, value: &str| HeaderValue {
        key: key.to_owned().into(),
        value: value.into(),
        ..Default::default()
    };
    let bytes = HeaderValue {
        key: "x-bytes".into(),
        raw_value: b"\xff"[..].into(),
        ..Default::default()
    };
    RateLimitResponse {
        overall_code: Code::OverLimit.into(),
        statuses: vec![full, bare],
        response_headers_to_add: vec![header("retry-after", "60"), bytes],
        request_headers_to_add: vec![header("x-seen", "1")],
        raw_body: b"\0slow down\xff"[..].into(),
    }
}

#[test]
fn a_request_reads_as_envoy_wrote_it() {
    assert_eq!(RateLimitRequest::decode(REQUEST).unwrap(), request());
    assert_eq!(request().encode_to_vec(), REQUEST);
}

#[test]
fn a_response_is_written_as_envoy_reads_it() {
    assert_eq!(response().encode_to_vec(), RESPONSE);
    assert_eq!(RateLimitResponse::decode(RESPONSE).unwrap(), response());
}

#[test]
fn fields_that_are_not_ours_do_no_harm() {
    assert_eq!(
        RateLimitResponse::decode(RESPONSE_WITH_MORE).unwrap(),
        response()
    );
}

#[test]
fn units_have_the_numbers_of_envoy() {
    let units = [
        Unit::Unknown,
        Unit::Second,
        Unit::Minute,
        Unit::Hour,
        Unit::Day,
        Unit::Month,
        Unit::Year,
        Unit::Week,
    ];
    assert_eq!(units.map(i32::from), [0, 1, 2, 3, 4, 5, 6, 7]);
    let units = [
        RateLimitUnit::Second,
        RateLimitUnit::Minute,
        RateLimitUnit::Hour,
        RateLimitUnit::Day,
    ];
    assert_eq!(units.map(i32::from), [1, 2, 3, 4]);
}
