//! The section "Protect a login".

use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use tollgate::{FailurePolicy, Limit, Limiter};
use tollgate_tower::{RateLimitLayer, ReadBodyLayer, by, response};

#[derive(Deserialize)]
struct Credentials {
    email: String,
    password: String,
}

fn login_limits() -> [Limit; 2] {
    let window = Duration::from_secs(15 * 60);
    [
        Limit::sliding_log("login-address", 50, window).on_store_failure(FailurePolicy::Deny),
        Limit::sliding_log("login-account", 5, window).on_store_failure(FailurePolicy::Deny),
    ]
}

fn login_routes(limiter: &Limiter) -> Router {
    let account = by::body("an e-mail address", |body| {
        let credentials: Credentials = serde_json::from_slice(body).ok()?;
        Some(credentials.email.trim().to_lowercase()) // one key for all spellings
    })
    .or_reject(StatusCode::BAD_REQUEST);

    let per_address = RateLimitLayer::new(limiter, "login-address", by::client_address());
    let per_account =
        RateLimitLayer::new(limiter, "login-account", account).refund_when(response::succeeded);

    // In axum, the layer added last runs first.
    Router::new()
        .route("/login", post(login))
        .layer(per_account)
        .layer(ReadBodyLayer::up_to(4 * 1024)) // longer bodies are rejected with 413
        .layer(per_address)
}

async fn login(Json(credentials): Json<Credentials>) -> StatusCode {
    if credentials.password == "correct horse" {
        StatusCode::OK
    } else {
        StatusCode::UNAUTHORIZED
    }
}

mod tests {
    use axum::body::Body;
    use axum::http::Request;

    use super::super::{send, with_peer};
    use super::*;

    async fn status(app: &Router, email: &str, password: &str) -> u16 {
        let body = format!(r#"{{"email": "{email}", "password": "{password}"}}"#);
        let request = Request::post("/login").header("content-type", "application/json");
        let request = request.body(Body::from(body)).expect("a request");
        send(app, with_peer(request)).await.status().as_u16()
    }

    #[tokio::test]
    async fn successful_logins_are_free_and_wrong_passwords_are_limited() {
        let app = login_routes(&Limiter::in_memory(login_limits()).unwrap());
        for _ in 0..10 {
            let email = "Ann@example.com";
            assert_eq!(status(&app, email, "correct horse").await, 200);
        }
        for _ in 0..5 {
            assert_eq!(status(&app, "ann@example.com", "?").await, 401);
        }
        for password in ["?", "correct horse"] {
            assert_eq!(status(&app, "ANN@example.com", password).await, 429);
        }
    }

    #[tokio::test]
    async fn an_address_that_tries_many_accounts_is_limited() {
        let app = login_routes(&Limiter::in_memory(login_limits()).unwrap());
        for account in 0..50 {
            let email = format!("user-{account}@example.com");
            assert_eq!(status(&app, &email, "?").await, 401);
        }
        assert_eq!(status(&app, "user-50@example.com", "?").await, 429);
    }
}
