//! Users with tiers, and several limits.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get as on_get;
use tokio::runtime::Runtime;
use tollgate::{Limit, LimitError, Limiter, Rate, TokenBucket};
use tollgate_tower::{Peer, RateLimitLayer, RequestHead, by};

use super::{get, send};

#[derive(Clone)]
struct User {
    id: u64,
    tier: Tier,
}

#[derive(Clone, Copy)]
enum Tier {
    Free,
    Pro,
}

/// In place of a look into a database.
fn user_of(token: &str) -> Option<User> {
    let tier = if token.starts_with("pro") {
        Tier::Pro
    } else {
        Tier::Free
    };
    token.ends_with('1').then_some(User { id: 1, tier })
}

fn by_user() -> Result<RateLimitLayer, LimitError> {
    let limiter = Limiter::in_memory([Limit::token_bucket("plan", 10, Rate::per_second(1))]);
    let pro = TokenBucket::new(1_000, Rate::per_second(100))?;
    let user = by::extension(|user: &User| user.id).or_refuse(StatusCode::UNAUTHORIZED);
    let tier = move |head: &RequestHead<'_>| match head.extensions().get::<User>()?.tier {
        Tier::Free => None,
        Tier::Pro => Some(pro.into()),
    };
    let layer = RateLimitLayer::new(&limiter, "plan", user).quota(tier);
    Ok(layer)
}

#[test]
fn users_have_the_quota_of_their_tier() {
    let layer = by_user().expect("right numbers").look_up(|head| {
        let token = head.header("authorization").map(str::to_owned);
        async move { user_of(&token?) }
    });
    let app = Router::new()
        .route("/", on_get(async || "Hello."))
        .layer(layer);
    Runtime::new().expect("a runtime").block_on(async {
        for (token, limit) in [("free-1", "10"), ("pro-1", "1000")] {
            let response = send(&app, get("/", &[("authorization", token)])).await;
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.headers()["x-ratelimit-limit"], limit);
        }
        let stranger = send(&app, get("/", &[])).await;
        assert_eq!(stranger.status(), StatusCode::UNAUTHORIZED);
    });
}

fn several() -> RateLimitLayer {
    let limiter = Limiter::in_memory([
        Limit::token_bucket("per-key", 10, Rate::per_day(1)),
        Limit::token_bucket("per-address", 3, Rate::per_day(1)),
    ]);
    RateLimitLayer::new(
        &limiter,
        "per-key",
        by::header("x-api-key").or(by::client_address()),
    )
    .cost(|head| {
        if head.path().starts_with("/search") {
            5
        } else {
            1
        }
    })
    .and("per-address", by::client_address())
    .skip(|head| head.path() == "/healthz")
    .deny(|head| head.header("user-agent").is_none())
}

#[test]
fn several_limits_are_charged_together_or_not_at_all() {
    let hello = on_get(async || "Hello.");
    let app = Router::new()
        .route("/", hello.clone())
        .route("/search", hello.clone())
        .route("/healthz", hello);
    let app = app.layer(several().validate().expect("known limits"));
    let status = async |path: &str, key: &str, agent: &[(&str, &str)]| {
        let headers = [&[("x-api-key", key)], agent].concat();
        let mut request = get(path, &headers);
        request
            .extensions_mut()
            .insert(Peer(([203, 0, 113, 7], 4711).into()));
        send(&app, request).await.status().as_u16()
    };
    let agent = [("user-agent", "test")];
    Runtime::new().expect("a runtime").block_on(async {
        assert_eq!(status("/", "k", &[]).await, 403);
        assert_eq!(status("/healthz", "k", &agent).await, 200);
        assert_eq!(status("/search", "k", &agent).await, 200);
        assert_eq!(status("/search", "k", &agent).await, 200);
        // The key has nothing left, so the address is not charged.
        assert_eq!(status("/", "k", &agent).await, 429);
        assert_eq!(status("/", "l", &agent).await, 200);
        // Now the address has nothing left.
        assert_eq!(status("/", "l", &agent).await, 429);
    });
}
