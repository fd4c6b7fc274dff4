//! Costs, quotas, and which requests are limited.

use http::header::CONTENT_LENGTH;
use tollgate::{FixedWindow, Limit, Rate, TokenBucket};
use tollgate_tower::{RateLimitLayer, ReadBodyLayer, RequestHead, by};
use tower::{Layer, service_fn};

use crate::support::{MINUTE, get, header, hello, left, limiter, per_minute, send, status, with};

#[test]
fn a_cost_is_a_function_of_the_request() {
    let limits = limiter([per_minute("units", 100)]);
    let layer =
        RateLimitLayer::new(&limits, "units", by::everyone()).cost(|head| match head.path() {
            "/search" => 10,
            "/look" => 0,
            _ => head
                .header(CONTENT_LENGTH)
                .and_then(|length| length.parse::<u64>().ok())
                .map_or(1, |bytes| bytes / 10),
        });
    let service = layer.layer(service_fn(hello));

    for (request, left_then) in [
        (get("/search"), 90),
        (get("/"), 89),
        (get("/look"), 89),
        (with("/upload", &[("content-length", "800")]), 9),
    ] {
        let response = send(&service, request);
        assert_eq!(
            header(&response, "x-ratelimit-remaining"),
            Some(left_then.to_string().as_str())
        );
    }

    let never = send(&service, with("/upload", &[("content-length", "2000")]));
    assert_eq!(never.status(), 429);
    assert_eq!(
        header(&never, "retry-after"),
        None,
        "a request that can never be allowed has no retry delay"
    );
    assert_eq!(left(&limits, "units", ()), 9);
}

#[test]
fn a_cost_may_depend_on_the_buffered_body() {
    let limits = limiter([per_minute("rows", 100)]);
    let rows = |head: &RequestHead<'_>| {
        head.body()
            .map_or(1, |body| body.split(|byte| *byte == b'\n').count() as u64)
    };
    let layer = (
        ReadBodyLayer::up_to(1_024),
        RateLimitLayer::new(&limits, "rows", by::everyone()).cost(rows),
    );
    let service = layer.layer(service_fn(hello));
    let request = get("/").map(|_| http_body_util::Full::<bytes::Bytes>::from("a\nb\nc"));

    assert_eq!(status(&service, request), 200);
    assert_eq!(left(&limits, "rows", ()), 97);
}

#[derive(Clone, Copy)]
enum Tier {
    Free,
    Pro,
}

#[test]
fn the_quota_follows_the_tier_and_usage_carries_over() {
    let limits = limiter([Limit::token_bucket("plan", 2, Rate::per_hour(1))]);
    let pro = TokenBucket::new(5, Rate::per_hour(1)).unwrap();
    let layer =
        RateLimitLayer::new(&limits, "plan", by::header("x-user").or_skip()).quota(move |head| {
            match head.extensions().get()? {
                Tier::Free => None,
                Tier::Pro => Some(pro.into()),
            }
        });
    let service = layer.layer(service_fn(hello));
    let as_tier = |user, tier: Tier| {
        let mut request = with("/", &[("x-user", user)]);
        request.extensions_mut().insert(tier);
        status(&service, request).as_u16()
    };

    assert_eq!(
        [(); 3].map(|()| as_tier("carl", Tier::Free)),
        [200, 200, 429]
    );
    assert_eq!(as_tier("ann", Tier::Free), 200);
    assert_eq!(
        [(); 6].map(|()| as_tier("bob", Tier::Pro)),
        [200, 200, 200, 200, 200, 429]
    );

    // Ann upgrades: her bucket was half empty and stays so.
    assert_eq!([(); 3].map(|()| as_tier("ann", Tier::Pro)), [200, 200, 429]);
}

#[test]
fn a_quota_of_another_algorithm_is_a_misconfiguration() {
    let limits = limiter([Limit::token_bucket("plan", 2, Rate::per_hour(1))]);
    let window = FixedWindow::new(5, MINUTE).unwrap();
    let layer =
        RateLimitLayer::new(&limits, "plan", by::everyone()).quota(move |_| Some(window.into()));
    assert_eq!(status(&layer.layer(service_fn(hello)), get("/")), 500);
}

#[test]
fn when_skip_and_deny_select_requests() {
    let limits = limiter([per_minute("writes", 1)]);
    let layer = RateLimitLayer::new(&limits, "writes", by::everyone())
        .when(|head| head.method() != http::Method::GET)
        .skip(|head| head.header("x-internal") == Some("yes"))
        .deny(|head| head.header("user-agent") == Some("scraper"));
    let service = layer.layer(service_fn(hello));
    let post = |headers: &[(&str, &str)]| {
        let mut request = with("/", headers);
        *request.method_mut() = http::Method::POST;
        request
    };

    assert_eq!(
        [(); 3].map(|()| status(&service, get("/")).as_u16()),
        [200; 3]
    );
    assert_eq!(
        [(); 3].map(|()| status(&service, post(&[("x-internal", "yes")])).as_u16()),
        [200; 3]
    );

    let listed = [("user-agent", "scraper"), ("x-internal", "yes")];
    let rejected = send(&service, post(&listed));
    assert_eq!(rejected.status(), 403, "the deny list takes precedence");
    assert_eq!(header(&rejected, "ratelimit"), None);
    assert_eq!(left(&limits, "writes", ()), 1, "none of them was counted");
    assert_eq!(
        [(); 2].map(|()| status(&service, post(&[])).as_u16()),
        [200, 429]
    );
}
