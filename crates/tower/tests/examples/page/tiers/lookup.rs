//! The lookup of the section "By user, with tiers".

use std::future::{Ready, ready};

use super::{Tier, User};

use tollgate_tower::RateLimitLayer;

fn with_user_lookup(layer: RateLimitLayer) -> RateLimitLayer {
    layer.look_up(|head| {
        let token = head.header("authorization").map(str::to_owned);
        async move { find_user(&token?).await } // your database query
    })
}

fn find_user(token: &str) -> Ready<Option<User>> {
    let tier = if token.starts_with("pro") {
        Tier::Pro
    } else {
        Tier::Free
    };
    ready(token.ends_with('1').then_some(User { id: 1, tier }))
}

mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get as on_get;
    use tollgate::{Limit, Limiter, Rate};

    use super::super::super::{get, send};
    use super::super::per_user;
    use super::*;

    #[tokio::test]
    async fn users_have_the_quota_of_their_tier() {
        let limiter =
            Limiter::in_memory([Limit::token_bucket("plan", 10, Rate::per_second(1))]).unwrap();
        let layer = with_user_lookup(per_user(&limiter).expect("a valid quota"));
        let app = Router::new()
            .route("/", on_get(async || "Hello."))
            .layer(layer);

        for (token, limit) in [("free-1", "10"), ("pro-1", "1000")] {
            let response = send(&app, get("/", &[("authorization", token)])).await;
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.headers()["x-ratelimit-limit"], limit);
        }

        let anonymous = send(&app, get("/", &[])).await;
        assert_eq!(anonymous.status(), StatusCode::UNAUTHORIZED);
    }
}
