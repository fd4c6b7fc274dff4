//! Requests that cannot be decided, and an unavailable store.

use testkit::reverse_proxy;
use tollgate_envoy::{Code, Entry, RateLimitDescriptor, RateLimitRequest};

use super::client::Client;
use super::{LIMITS, about, body, described, header, request};
use crate::harness::Tollgate;

const INVALID_ARGUMENT: &str = "3";
const UNAVAILABLE: &str = "14";

#[test]
fn a_misconfigured_proxy_gets_an_error() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let many = vec![("a", "b"); 65];
    let wrong = [
        (
            RateLimitRequest {
                domain: String::new(),
                ..about(&[("a", "b")])
            },
            "domain is empty",
        ),
        (
            RateLimitRequest {
                domain: "x".repeat(257),
                ..about(&[("a", "b")])
            },
            "257 bytes",
        ),
        (request([]), "no descriptor"),
        (about(&many), "65 entries"),
    ];
    for (asked, what) in wrong {
        let (status, text) = client.fault(&asked);
        assert_eq!(status, INVALID_ARGUMENT);
        assert!(text.replace("%20", " ").contains(what), "{text}");
    }
}

/// A reload may have removed the last limit that counts them. Envoy would take an error for an
/// outage, and let everything pass.
#[test]
fn tokens_that_no_limit_counts_are_ignored_and_counted() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let asked = about(&[("tenant", "acme"), ("tokens.input", "9")]);
    let codes: Vec<Code> = (0..4).map(|_| client.ask(&asked).overall_code()).collect();
    assert_eq!(codes, [Code::Ok, Code::Ok, Code::Ok, Code::OverLimit]);

    let metrics = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let counted = "tollgate_request_errors_total{code=\"bad-tokens\"} 4";
    assert!(metrics.contains(counted), "{metrics}");
    service.wait_for_log("ignoring a descriptor's entry");
    assert_eq!(service.log().matches("no limit counts tokens").count(), 1);
}

/// A client decides with its headers which descriptors are sent and which limits they match, so
/// their number must not lead to an error, which Envoy takes for a permission.
#[test]
fn any_number_of_limits_is_decided() {
    let limit = |n: usize| {
        format!("  - {{ name: l{n}, key: [a], algorithm: fixed_window, limit: 1, window: 1h }}\n")
    };
    let limits: String = (0..1_000).map(limit).collect();
    let service = Tollgate::with_config(&format!("version: 1\nlimits:\n{limits}"));
    let mut client = Client::connect(service.grpc);
    let mut code = |request: &RateLimitRequest| client.ask(request).overall_code();
    assert_eq!(code(&about(&[("a", "b")])), Code::Ok);
    assert_eq!(code(&about(&[("a", "b")])), Code::OverLimit);

    let descriptors = |count: usize| {
        let descriptor = |n: usize| RateLimitDescriptor {
            entries: vec![Entry {
                key: "a".into(),
                value: n.to_string().into(),
            }],
            ..Default::default()
        };
        request((0..count).map(descriptor).collect::<Vec<_>>())
    };
    assert_eq!(code(&descriptors(257)), Code::OverLimit);
    // More demands than a request may have, although each descriptor has few enough.
    assert_eq!(code(&descriptors(2)), Code::OverLimit);
}

/// Envoy lets a request pass on an error, so no value that a client chooses may lead to one.
#[test]
fn a_value_that_makes_no_valid_key_is_denied() {
    let service = Tollgate::with_config(&format!(
        "{LIMITS}  - {{ name: reports, key: [user], algorithm: fixed_window, limit: 9, window: 1h, cost: {{ by: pages, default: 1 }} }}"
    ));
    let mut client = Client::connect(service.grpc);
    let long = "x".repeat(5_000);
    let login = [
        ("path", "/auth/login"),
        ("remote_address", "nowhere"),
        ("email", "a"),
    ];
    for (entries, what) in [
        (&[("tenant", long.as_str())][..], "hash long parts"),
        (&login[..], "invalid address"),
        (&[("user", "ann"), ("pages", "many")][..], "whole number"),
    ] {
        let response = client.ask(&about(entries));
        assert_eq!(response.overall_code(), Code::OverLimit);
        assert_eq!(
            header(&response, "content-type"),
            Some("application/problem+json")
        );
        assert!(body(&response).contains(what), "{}", body(&response));
    }
    let bytes = Entry {
        key: "tenant".into(),
        value: b"\xff\xfe"[..].into(),
    };
    let bytes = request([RateLimitDescriptor {
        entries: vec![bytes],
        ..Default::default()
    }]);
    let answers: Vec<Code> = (0..4).map(|_| client.ask(&bytes).overall_code()).collect();
    assert_eq!(answers, [Code::Ok, Code::Ok, Code::Ok, Code::OverLimit]);
}

#[test]
fn while_the_store_is_unavailable_failure_policies_decide() {
    let limit = |name: &str, policy: &str| {
        format!(
            "  - {{ name: {name}, key: [{name}], algorithm: fixed_window, limit: 5, window: 1h, on_store_failure: {policy} }}\n"
        )
    };
    let service = Tollgate::with_config(&format!(
        "version: 1\nstore: {{ type: redis, endpoints: ['redis://127.0.0.1:1'] }}\nlimits:\n{}{}",
        limit("strict", "deny"),
        limit("lenient", "allow"),
    ));
    let mut client = Client::connect(service.grpc);

    let allowed = client.ask(&about(&[("lenient", "a")]));
    assert_eq!(
        (
            allowed.overall_code(),
            header(&allowed, "x-ratelimit-fallback")
        ),
        (Code::Ok, Some("true"))
    );

    // On an error Envoy would decide, and by default let the request pass.
    let refused = client.ask(&about(&[("strict", "a")]));
    assert_eq!(refused.overall_code(), Code::OverLimit);
    assert_eq!(header(&refused, "x-ratelimit-fallback"), Some("true"));
    assert_eq!(header(&refused, "retry-after"), Some("1"));
    let body_text = body(&refused);
    assert!(
        body_text.contains("#temporary-reduced-capacity") && body_text.contains(r#""status":429"#),
        "{body_text}"
    );

    // A refund has no failure policy.
    let returned = RateLimitDescriptor {
        is_negative_hits: true,
        ..described(&[("lenient", "a")])
    };
    assert_eq!(client.fault(&request([returned])).0, UNAVAILABLE);
}
