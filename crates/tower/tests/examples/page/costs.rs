//! A login, and costs that the response decides.

use axum::body::Body;
use axum::extract::Extension;
use axum::http::{Request, StatusCode};
use axum::routing::{get as on_get, post};
use axum::{Json, Router};
use serde::Deserialize;
use tokio::runtime::Runtime;
use tollgate::{Limit, Limiter, Rate};
use tollgate_tower::{ActualCost, Peer, RateLimitLayer, ReadBodyLayer, by, response};

use super::{get, send};

#[derive(Deserialize)]
struct Attempt {
    email: String,
    password: String,
}

async fn login(Json(attempt): Json<Attempt>) -> StatusCode {
    if attempt.password == "right" {
        StatusCode::OK
    } else {
        StatusCode::UNAUTHORIZED
    }
}

fn with_login() -> Router {
    let limiter = Limiter::in_memory([
        Limit::token_bucket("login-account", 2, Rate::per_day(1)),
        Limit::token_bucket("login-address", 100, Rate::per_day(1)),
    ]);
    let account = by::body("an e-mail address", |body| {
        let attempt: Attempt = serde_json::from_slice(body).ok()?;
        Some(attempt.email.trim().to_lowercase())
    });
    let account = account.or_refuse(StatusCode::BAD_REQUEST);
    Router::new()
        .route("/login", post(login))
        .layer(
            RateLimitLayer::new(&limiter, "login-account", account)
                .refund_when(response::succeeded),
        )
        .layer(ReadBodyLayer::up_to(4 * 1024))
        .layer(RateLimitLayer::new(
            &limiter,
            "login-address",
            by::client_address(),
        ))
}

#[test]
fn successful_logins_are_free_and_wrong_passwords_are_limited() {
    let app = with_login();
    let attempt = async |password: &str| {
        let body = format!(r#"{{"email": "Ann@example.com", "password": "{password}"}}"#);
        let request = Request::post("/login").header("content-type", "application/json");
        let mut request = request.body(Body::from(body)).expect("a request");
        request
            .extensions_mut()
            .insert(Peer(([203, 0, 113, 7], 4711).into()));
        send(&app, request).await.status().as_u16()
    };
    Runtime::new().expect("a runtime").block_on(async {
        for (password, status) in [
            ("right", 200),
            ("right", 200),
            ("right", 200),
            ("?", 401),
            ("?", 401),
            ("?", 429),
            ("right", 429),
        ] {
            assert_eq!(attempt(password).await, status, "{password}");
        }
    });
}

fn model() -> (String, u64) {
    ("Certainly!".to_owned(), 30)
}

async fn generate(Extension(actual_cost): Extension<ActualCost>) -> String {
    let (text, tokens) = model();
    actual_cost.report("tokens", tokens).ok();
    text
}

#[test]
fn the_application_reports_the_actual_cost() {
    let limiter = Limiter::in_memory([Limit::token_bucket("tokens", 100, Rate::per_day(1))]);
    let layer = RateLimitLayer::new(&limiter, "tokens", by::everyone())
        .cost(|_| 50)
        .settle_by_actual_cost();
    let app = Router::new().route("/", on_get(generate)).layer(layer);
    Runtime::new().expect("a runtime").block_on(async {
        let response = send(&app, get("/", &[])).await;
        assert_eq!(response.headers()["x-ratelimit-remaining"], "50");
        drop(response);
        let left = limiter
            .peek("tokens", ())
            .await
            .expect("a decision")
            .remaining();
        assert_eq!(left, 70, "20 of the estimate are given back");
    });
}

#[test]
fn the_response_determines_the_cost() {
    let limiter = Limiter::in_memory([Limit::token_bucket("rows", 100, Rate::per_day(1))]);
    let layer = RateLimitLayer::new(&limiter, "rows", by::everyone())
        .cost(|_| 50)
        .settle(|reply| reply.header("x-cost")?.parse().ok());
    let app = Router::new()
        .route("/", on_get(async || ([("x-cost", "60")], "rows")))
        .layer(layer);
    Runtime::new().expect("a runtime").block_on(async {
        drop(send(&app, get("/", &[])).await);
        // What goes beyond the estimate is charged beside the answer.
        while limiter
            .peek("rows", ())
            .await
            .expect("a decision")
            .remaining()
            != 40
        {
            tokio::task::yield_now().await;
        }
    });
}
