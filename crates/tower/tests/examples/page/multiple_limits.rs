//! The section "Several limits".

use tollgate::Limiter;
use tollgate_tower::{RateLimitLayer, by};

fn per_key_and_address(limiter: &Limiter) -> RateLimitLayer {
    let address = by::client_address();
    let api_key = by::header("x-api-key").or(address.clone());

    RateLimitLayer::new(limiter, "per-key", api_key)
        .cost(|head| match head.path() {
            "/search" => 5,
            _ => 1,
        })
        .and("per-address", address)
        .skip(|head| head.path() == "/healthz")
        .deny(|head| head.header("user-agent").is_none())
}

mod tests {
    use axum::Router;
    use axum::routing::get as on_get;
    use tollgate::{Limit, Rate};

    use super::super::{get, send};
    use super::*;

    #[tokio::test]
    async fn several_limits_are_charged_together_or_not_at_all() {
        let limiter = Limiter::in_memory([
            Limit::token_bucket("per-key", 10, Rate::per_day(1)),
            Limit::token_bucket("per-address", 3, Rate::per_day(1)),
        ])
        .unwrap();
        let layer = per_key_and_address(&limiter).validate();
        let hello = on_get(async || "Hello.");
        let app = Router::new()
            .route("/", hello.clone())
            .route("/search", hello.clone())
            .route("/healthz", hello)
            .layer(layer.expect("known limits"));
        let status = async |path: &str, key: &str, agent: &[(&str, &str)]| {
            let headers = [&[("x-api-key", key)], agent].concat();
            send(&app, get(path, &headers)).await.status().as_u16()
        };
        let agent = [("user-agent", "test")];

        assert_eq!(status("/", "k", &[]).await, 403);
        assert_eq!(status("/healthz", "k", &agent).await, 200);
        assert_eq!(status("/search", "k", &agent).await, 200);
        assert_eq!(status("/search", "k", &agent).await, 200);
        // The key has nothing left, so the address is not charged.
        assert_eq!(status("/", "k", &agent).await, 429);
        assert_eq!(status("/", "l", &agent).await, 200);
        // Now the address has nothing left.
        assert_eq!(status("/", "l", &agent).await, 429);
    }
}
