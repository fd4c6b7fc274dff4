//! An axum application whose replicas share their limits on Redis: tiers for callers with an API
//! key, and a login that is protected against password guessing, even while Redis is unavailable.
//!
//! Run `cargo run -p tollgate-tower --example axum_redis` and try the commands that it prints. Then
//! stop Redis and try again: the public route still answers, the login does not.

use std::net::SocketAddr;
use std::time::Duration;
use std::{env, error, io};

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use tokio::net::TcpListener;
use tollgate::{Consistency, FailurePolicy, Limit, Limiter, Quota, Rate, TokenBucket};
use tollgate_redis::RedisStore;
use tollgate_tower::{RateLimitLayer, ReadBodyLayer, RequestHead, by, response};

#[tokio::main]
async fn main() -> Result<(), Box<dyn error::Error>> {
    let redis = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    println!("limits are shared on {redis}; try:");
    println!("  curl -i http://127.0.0.1:3000/");
    println!("  curl -i http://127.0.0.1:3000/ -H 'x-api-key: pro-1'");
    println!(
        "  curl -i http://127.0.0.1:3000/login \
         --json '{{\"email\": \"ann@example.com\", \"password\": \"?\"}}'"
    );

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    let store = RedisStore::connect(redis).await?;
    Ok(serve(listener, app(store)?).await?)
}

pub(crate) async fn serve(listener: TcpListener, app: Router) -> io::Result<()> {
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await
}

pub(crate) fn app(store: RedisStore) -> Result<Router, tollgate::Error> {
    let limiter = Limiter::builder().store(store).limits(limits()).build()?;

    let public = Router::new()
        .route("/", get(async || "Hello.\n"))
        .layer(per_caller(&limiter).validate()?);

    // The layer added last runs first: the limit by address rejects a client before its body is
    // read, and the limit by account needs the body.
    let login = Router::new()
        .route("/login", post(login))
        .layer(per_account(&limiter).validate()?)
        .layer(ReadBodyLayer::up_to(4 * 1024))
        .layer(per_address(&limiter).validate()?);

    Ok(public.merge(login))
}

fn limits() -> [Limit; 3] {
    let window = Duration::from_secs(15 * 60);

    [
        // Mostly decided from memory. Open while Redis is unavailable, because availability matters
        // more here.
        Limit::token_bucket("api", 10, Rate::per_second(1))
            .consistency(Consistency::Leased)
            .on_store_failure(FailurePolicy::Allow),
        // Closed while Redis is unavailable, because uncounted attempts invite password guessing.
        Limit::sliding_log("login-address", 50, window).on_store_failure(FailurePolicy::Deny),
        Limit::sliding_log("login-account", 5, window).on_store_failure(FailurePolicy::Deny),
    ]
}

/// A burst of ten requests and one per second; a hundred times that for paying customers.
fn per_caller(limiter: &Limiter) -> RateLimitLayer {
    let caller = by::extension(|customer: &Customer| customer.id).or(by::client_address());
    RateLimitLayer::new(limiter, "api", caller)
        .look_up(|head: &RequestHead<'_>| {
            let key = head.header("x-api-key").map(str::to_owned);
            // Usually a database query.
            async move { find_customer(&key?) }
        })
        .quota(|head: &RequestHead<'_>| head.extensions().get::<Customer>()?.tier.quota())
}

/// Stops one address that tries many accounts. The limit by account cannot.
fn per_address(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::new(limiter, "login-address", by::client_address())
}

/// Stops many addresses that try one account. The limit by address cannot. Five wrong passwords are
/// allowed, and successful logins are free.
fn per_account(limiter: &Limiter) -> RateLimitLayer {
    let account = by::body("an e-mail address", |body| {
        let credentials: Credentials = serde_json::from_slice(body).ok()?;
        // Normalised, because otherwise each spelling would have its own five attempts.
        Some(credentials.email.trim().to_lowercase())
    })
    .or_reject(StatusCode::BAD_REQUEST);

    RateLimitLayer::new(limiter, "login-account", account).refund_when(response::succeeded)
}

#[derive(Clone)]
struct Customer {
    id: u64,
    tier: Tier,
}

#[derive(Clone)]
enum Tier {
    Free,
    Pro,
}

impl Tier {
    /// The quota of the tier; `None` for the quota of the limit itself.
    fn quota(&self) -> Option<Quota> {
        match self {
            Self::Free => None,
            Self::Pro => TokenBucket::new(1_000, Rate::per_second(100))
                .ok()
                .map(Quota::from),
        }
    }
}

fn find_customer(key: &str) -> Option<Customer> {
    match key {
        "free-1" => Some(Customer {
            id: 1,
            tier: Tier::Free,
        }),
        "pro-1" => Some(Customer {
            id: 2,
            tier: Tier::Pro,
        }),
        _ => None,
    }
}

#[derive(Deserialize)]
struct Credentials {
    email: String,
    password: String,
}

async fn login(Json(credentials): Json<Credentials>) -> Result<&'static str, StatusCode> {
    // Stands for the verification of a password hash.
    if credentials.password == "correct horse" {
        Ok("Welcome.\n")
    } else {
        Err(StatusCode::UNAUTHORIZED)
    }
}
