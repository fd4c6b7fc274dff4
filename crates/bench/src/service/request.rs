//! The requests that every server gets, by protocol and case.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::harness::prelude::*;
use prost::Message as _;
use serde_json::{Value, json};
use tollgate_envoy::{Entry, RateLimitDescriptor, RateLimitRequest};

/// The protocol of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// `POST /v1/check` over HTTP/1.1.
    Http,
    /// Envoy's `ShouldRateLimit` over gRPC.
    Grpc,
}

/// The case, which determines the outcome of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// One limit, which allows every request.
    Allowed,
    /// One limit that is used up: a denial must not be slower than an admission.
    Denied,
    /// Three limits in one request, all of which allow it.
    ThreeLimits,
}

/// A request and its expected response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) protocol: Protocol,
    pub(super) case: Case,
}

/// The attributes of the request. They are always the same, because the load generator sends only
/// one body.
const ATTRIBUTES: [(&str, &str); 3] = [
    ("client_ip", "203.0.113.7"),
    ("tenant", "acme"),
    ("user", "ann@example.com"),
];
/// The path of the request, for conditions of limits. No key uses it.
const PATH: &str = "/v1/users/42";
/// The number of limits of the subject with many of them.
const MANY_LIMITS: usize = 1_000;
/// Units spent beforehand, so that the numbers in responses keep their number of digits.
const SPENT: u32 = 10_000_000;

impl Protocol {
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Http => "/v1/check",
            Self::Grpc => "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        }
    }

    /// The name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Http => "POST /v1/check over HTTP/1.1",
            Self::Grpc => "ShouldRateLimit over gRPC",
        }
    }
}

impl Case {
    /// The name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "1 limit, allowed",
            Self::Denied => "1 limit, denied",
            Self::ThreeLimits => "3 limits, allowed",
        }
    }

    pub(super) const fn is_allowed(self) -> bool {
        !matches!(self, Self::Denied)
    }

    const fn limits(self) -> usize {
        match self {
            Self::Allowed | Self::Denied => 1,
            Self::ThreeLimits => ATTRIBUTES.len(),
        }
    }

    /// The units to spend before the first round.
    pub(super) const fn spent_before(self) -> u32 {
        if self.is_allowed() { SPENT } else { 1 }
    }

    /// A configuration of Tollgate: one limit for each attribute, on memory or on this server at
    /// this consistency.
    pub(super) fn config(self, redis: Option<(&str, &str)>) -> String {
        let store = redis.map_or_else(String::new, |(url, consistency)| {
            // The timeout is one second instead of 10 ms, so that a busy machine makes the store
            // slow but not unavailable. Fallback decisions are denials, so that they show up.
            format!(
                "store: {{ type: redis, endpoints: [\"{url}\"], timeout: 1s }}\n\
                 defaults: {{ consistency: {consistency}, on_store_failure: deny }}\n"
            )
        });
        let (capacity, rate) = match self {
            Self::Denied => ("1", "1/day"),
            _ => ("1000000000", "1/s"),
        };
        let limit = |(attribute, _): &(&str, &str)| {
            let name = attribute.replace('_', "-");
            format!(
                "  - {{ name: by-{name}, key: [{attribute}], algorithm: token_bucket, \
                 capacity: {capacity}, refill_rate: {rate} }}\n"
            )
        };
        let limits: String = ATTRIBUTES[..self.limits()].iter().map(limit).collect();
        format!("version: 1\n{store}limits:\n{limits}")
    }

    /// The same on memory with further limits that do not apply to the request, 1,000 in all. Their
    /// conditions compare the path with a text and with a glob.
    pub(super) fn config_with_many_limits(self) -> String {
        let limit = |number| {
            let path = match number % 2 {
                0 => format!("/v1/reports/{number}"),
                _ => format!("/v1/area-{number}/**"),
            };
            format!(
                "  - {{ name: other-{number}, match: {{ path: {path} }}, key: [client_ip], \
                 algorithm: token_bucket, capacity: 10, refill_rate: 1/s }}\n"
            )
        };
        let others = (self.limits()..MANY_LIMITS).map(limit);
        self.config(None) + &others.collect::<String>()
    }

    /// The request over HTTP, with this cost; one by default.
    pub(super) fn json(self, cost: Option<u32>) -> Value {
        let attributes = ATTRIBUTES[..self.limits()].iter().chain([&("path", PATH)]);
        let attributes: BTreeMap<_, _> = attributes.copied().collect();
        let mut request = json!({ "attributes": attributes });
        if let Some(cost) = cost {
            request["cost"] = cost.into();
        }
        request
    }

    /// The request over gRPC, with this cost; one by default.
    pub(super) fn message(self, cost: Option<u32>) -> RateLimitRequest {
        let entry = |(key, value): &(&str, &str)| Entry {
            key: (*key).to_owned(),
            value: (*value).to_owned().into(),
        };
        let descriptor = RateLimitDescriptor {
            entries: ATTRIBUTES[..self.limits()].iter().map(entry).collect(),
            ..Default::default()
        };
        RateLimitRequest {
            domain: "bench".to_owned(),
            descriptors: vec![descriptor],
            hits_addend: cost.unwrap_or_default(),
        }
    }

    /// The request for throttlecrab, which has the limit in the request and supports one limit at a
    /// time.
    pub(super) fn throttlecrab_json(self) -> Option<String> {
        let (burst, count, period_s) = match self {
            Self::Allowed => (1_000_000, 1_000_000, 1),
            // It does not store a burst of one.
            Self::Denied => (2, 1, 86_400),
            Self::ThreeLimits => return None,
        };
        let request = json!({
            "key": ATTRIBUTES[0].1, "max_burst": burst,
            "count_per_period": count, "period": period_s, "quantity": 1,
        });
        Some(request.to_string())
    }
}

impl Exchange {
    /// A server that gets the request at this address, with the status that is expected.
    pub(super) fn under_load(
        self,
        name: &str,
        process: Process,
        address: SocketAddr,
    ) -> ServerUnderLoad {
        let (request, status) = match self.protocol {
            Protocol::Http => {
                let request = LoadRequest::Json(self.case.json(None).to_string());
                (request, if self.case.is_allowed() { 200 } else { 429 })
            }
            Protocol::Grpc => {
                let message = self.case.message(None).encode_to_vec();
                (LoadRequest::Grpc(frame(&message)), 200)
            }
        };
        ServerUnderLoad {
            path: self.protocol.path(),
            status,
            ..ServerUnderLoad::new(name, process, address, request)
        }
    }
}

/// A gRPC frame: the compression flag, the length, the message.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a request is short");
    [&[0], &length.to_be_bytes()[..], message].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_all_key_attributes() {
        assert_eq!(
            Case::Allowed.json(None).to_string(),
            r#"{"attributes":{"client_ip":"203.0.113.7","path":"/v1/users/42"}}"#
        );
        let three = Case::ThreeLimits.json(Some(7)).to_string();
        let config = Case::ThreeLimits.config(None);
        for (attribute, _) in ATTRIBUTES {
            assert!(three.contains(&format!("\"{attribute}\"")), "{three}");
            assert!(config.contains(&format!("key: [{attribute}]")), "{config}");
        }
        assert!(three.ends_with(r#","cost":7}"#), "{three}");
        assert_eq!(
            Case::ThreeLimits.message(None).descriptors[0].entries.len(),
            3
        );
    }

    #[test]
    fn one_of_many_limits_applies() {
        let config = Case::Allowed.config_with_many_limits();
        assert_eq!(config.matches("name: ").count(), MANY_LIMITS);
        assert_eq!(config.matches("match: ").count(), MANY_LIMITS - 1);
        assert!(!config.contains(PATH));
    }

    #[test]
    fn a_frame_is_a_flag_a_length_and_the_message() {
        assert_eq!(frame(b"abc"), [0, 0, 0, 0, 3, b'a', b'b', b'c']);
    }
}
