//! Several limits in one layer, and several layers.

use axum::Router;
use axum::routing::get as on_get;
use tollgate_tower::{RateLimitLayer, by};
use tower::{Layer, service_fn};

use crate::support::{get, header, hello, left, limiter, per_minute, send, status, with};

#[test]
fn a_denied_request_is_not_charged_to_the_other_limits() {
    let limits = limiter([per_minute("user", 2), per_minute("tenant", 3)]);
    let layer = RateLimitLayer::new(&limits, "user", by::header("x-user").or_skip())
        .and("tenant", by::header("x-tenant").or_skip())
        .cost(|_| 1);
    let service = layer.layer(service_fn(hello));
    let of = |user| {
        status(
            &service,
            with("/", &[("x-user", user), ("x-tenant", "acme")]),
        )
        .as_u16()
    };

    assert_eq!(
        [
            of("ann"),
            of("ann"),
            of("ann"),
            of("ann"),
            of("bob"),
            of("bob")
        ],
        [200, 200, 429, 429, 200, 429]
    );
    assert_eq!(left(&limits, "tenant", "acme"), 0);
    assert_eq!(
        left(&limits, "user", "bob"),
        1,
        "a request denied by the tenant's limit is not charged to the user"
    );
}

#[test]
fn routes_groups_and_applications_have_their_own_limits() {
    let limits = limiter([
        per_minute("all", 5),
        per_minute("group", 3),
        per_minute("route", 1),
    ]);
    let layer = |limit| RateLimitLayer::new(&limits, limit, by::everyone());
    let group = Router::new()
        .route("/a", on_get(|| async { "a" }).layer(layer("route")))
        .route("/b", on_get(|| async { "b" }))
        .layer(layer("group"));
    let app = Router::new()
        .nest("/group", group)
        .route("/c", on_get(|| async { "c" }))
        .layer(layer("all"));
    let of = |path| status(&app, get(path)).as_u16();

    assert_eq!(
        [of("/group/a"), of("/group/a")],
        [200, 429],
        "the route's own limit"
    );
    assert_eq!(
        [of("/group/b"), of("/group/b")],
        [200, 429],
        "both requests to the other route count for the group's limit"
    );
    assert_eq!(
        [of("/c"), of("/c")],
        [200, 429],
        "all requests count for the application's limit"
    );
}

#[test]
fn two_layers_list_both_limits_and_the_tighter_one_has_the_legacy_fields() {
    let limits = limiter([per_minute("wide", 100), per_minute("narrow", 1)]);
    let layer = |limit| RateLimitLayer::new(&limits, limit, by::everyone());
    for service in [
        (layer("wide"), layer("narrow")).layer(service_fn(hello)),
        (layer("narrow"), layer("wide")).layer(service_fn(hello)),
    ] {
        reset_limits(&limits);
        let response = send(&service, get("/"));
        let lists: Vec<_> = response.headers().get_all("ratelimit").iter().collect();
        assert_eq!(lists.len(), 2, "{lists:?}");
        assert_eq!(header(&response, "x-ratelimit-limit"), Some("1"));
        assert_eq!(header(&response, "x-ratelimit-remaining"), Some("0"));

        let rejected = send(&service, get("/"));
        assert_eq!(
            (rejected.status().as_u16(), header(&rejected, "retry-after")),
            (429, Some("60"))
        );
        assert_eq!(
            header(&rejected, "x-ratelimit-limit"),
            Some("1"),
            "the fields describe the limit that denies"
        );
    }
}

fn reset_limits(limiter: &tollgate::Limiter) {
    for limit in ["wide", "narrow"] {
        pollster::block_on(limiter.reset(limit, ())).expect("a known limit");
    }
}
