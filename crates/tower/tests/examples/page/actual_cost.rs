//! The section "Costs known after the fact".

use axum::Extension;
use tollgate::Limiter;
use tollgate_tower::{ActualCost, RateLimitLayer, by};

fn token_budget(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::new(limiter, "tokens", by::everyone())
        .cost(|_| 50) // the estimate that is reserved first
        .settle_by_actual_cost()
}

async fn generate(Extension(cost): Extension<ActualCost>) -> String {
    let (text, tokens) = run_model();
    // An error means that no layer settles the limit "tokens" for this request.
    cost.report("tokens", tokens).ok();
    text
}

fn run_model() -> (String, u64) {
    ("Certainly!".to_owned(), 30)
}

mod tests {
    use axum::Router;
    use axum::routing::get as on_get;
    use tollgate::{Limit, Rate};

    use super::super::{get, send};
    use super::*;

    async fn remaining(limiter: &Limiter, limit: &str) -> u64 {
        let decision = limiter.peek(limit, ()).await;
        decision.expect("a known limit").remaining()
    }

    #[tokio::test]
    async fn the_application_reports_the_actual_cost() {
        let limiter =
            Limiter::in_memory([Limit::token_bucket("tokens", 100, Rate::per_day(1))]).unwrap();
        let app = Router::new()
            .route("/", on_get(generate))
            .layer(token_budget(&limiter));
        let response = send(&app, get("/", &[])).await;
        assert_eq!(response.headers()["x-ratelimit-remaining"], "50");
        drop(response);
        let left = remaining(&limiter, "tokens").await;
        assert_eq!(left, 70, "20 of the estimate are refunded");
    }

    #[tokio::test]
    async fn the_response_determines_the_cost() {
        let limiter =
            Limiter::in_memory([Limit::token_bucket("rows", 100, Rate::per_day(1))]).unwrap();
        let layer = RateLimitLayer::new(&limiter, "rows", by::everyone())
            .cost(|_| 50)
            .settle(|response| response.header("x-cost")?.parse().ok());
        let app = Router::new()
            .route("/", on_get(async || ([("x-cost", "60")], "rows")))
            .layer(layer);
        drop(send(&app, get("/", &[])).await);
        // The excess is charged in the background.
        while remaining(&limiter, "rows").await != 40 {
            tokio::task::yield_now().await;
        }
    }
}
