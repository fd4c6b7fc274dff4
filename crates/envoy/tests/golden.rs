//! Checks the encoding of the messages against files that were written without this crate.
//!
//! The files in `golden` were written by Python's protobuf library with the descriptors that are
//! built into Envoy 1.40.0. They are independent of the files in `proto`, so these tests detect a
//! wrong field number or type there.

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

/// A request with every field set, and numbers at the ends of their ranges.
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
    // A cost of zero differs from an absent cost.
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
fn requests_decode_as_envoy_encodes_them() {
    assert_eq!(RateLimitRequest::decode(REQUEST).unwrap(), request());
    assert_eq!(request().encode_to_vec(), REQUEST);
}

#[test]
fn responses_encode_as_envoy_decodes_them() {
    assert_eq!(response().encode_to_vec(), RESPONSE);
    assert_eq!(RateLimitResponse::decode(RESPONSE).unwrap(), response());
}

#[test]
fn unknown_fields_are_ignored() {
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
