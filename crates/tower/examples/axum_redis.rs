//! An axum application whose replicas share their limits on Redis: tiers for callers with a key,
//! and a login that nobody can try passwords on, not even while Redis is away.
//!
//! `cargo run -p tollgate-tower --example axum_redis`, then what it prints. Then stop Redis and try
//! again: what is public still answers, the login does not.

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
    println!("counting on {redis}; try:");
    println!("  curl -i http://127.0.0.1:3000/");
    println!("  curl -i http://127.0.0.1:3000/ -H 'x-api-key: pro-1'");
    println!(
        "  curl -i http://127.0.0.1:3000/login --json '{{\"email\": \"ann@example.com\", \"password\": \"?\"}}'"
    );
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    Ok(serve(listener, app(RedisStore::connect(redis)?)?).await?)
}

pub(crate) async fn serve(listener: TcpListener, app: Router) -> io::Result<()> {
    axum::serve(
        listener,
        app.into_make_service_with_connect_info::<SocketAddr>(),
    )
    .await
}

pub(crate) fn app(store: RedisStore) -> Result<Router, tollgate::Error> {
    let limiter = Limiter::builder().store(store).limits(limits()).build()?;
    let public = Router::new()
        .route("/", get(async || "Hello.\n"))
        .layer(per_caller(&limiter).validate()?);
    let login = Router::new()
        .route("/login", post(login))
        // From the inside out: the account is in the body, and who sends too much is refused before
        // that is read.
        .layer(per_account(&limiter).validate()?)
        .layer(ReadBodyLayer::up_to(4 * 1024))
        .layer(per_address(&limiter).validate()?);
    Ok(public.merge(login))
}

fn limits() -> [Limit; 3] {
    let quarter = Duration::from_secs(15 * 60);
    [
        // Mostly answered from memory, and open while Redis is away: being reachable is worth more
        // here.
        Limit::token_bucket("api", 10, Rate::per_second(1))
            .consistency(Consistency::Leased)
            .on_store_failure(FailurePolicy::Allow),
        // Closed while Redis is away: a login that nobody counts is an invitation.
        Limit::sliding_log("login-address", 50, quarter).on_store_failure(FailurePolicy::Deny),
        Limit::sliding_log("login-account", 5, quarter).on_store_failure(FailurePolicy::Deny),
    ]
}

/// Ten requests at once and one a second for everybody; a hundred times that for those who pay.
fn per_caller(limiter: &Limiter) -> RateLimitLayer {
    let caller = by::extension(|customer: &Customer| customer.id).or(by::client_address());
    RateLimitLayer::new(limiter, "api", caller)
        .look_up(|head: &RequestHead<'_>| {
            let key = head.header("x-api-key").map(str::to_owned);
            // A look into a database would be awaited here.
            async move { customer(&key?) }
        })
        .quota(|head: &RequestHead<'_>| head.extensions().get::<Customer>()?.tier.quota())
}

/// However many accounts an address tries.
fn per_address(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::new(limiter, "login-address", by::client_address())
}

/// However many addresses try an account: five wrong passwords, and right ones are free.
fn per_account(limiter: &Limiter) -> RateLimitLayer {
    let account = by::body("an e-mail address", |body| {
        let attempt: Attempt = serde_json::from_slice(body).ok()?;
        // One account whatever the spelling, or there would be five attempts for each.
        Some(attempt.email.trim().to_lowercase())
    });
    RateLimitLayer::new(
        limiter,
        "login-account",
        account.or_refuse(StatusCode::BAD_REQUEST),
    )
    .refund_when(response::succeeded)
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
    /// The numbers of the tier, where they are not those of the limit itself.
    fn quota(&self) -> Option<Quota> {
        match self {
            Self::Free => None,
            Self::Pro => TokenBucket::new(1_000, Rate::per_second(100))
                .ok()
                .map(Quota::from),
        }
    }
}

fn customer(key: &str) -> Option<Customer> {
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
struct Attempt {
    email: String,
    password: String,
}

async fn login(Json(attempt): Json<Attempt>) -> Result<&'static str, StatusCode> {
    // In place of a slow comparison with a stored hash.
    if attempt.password == "correct horse" {
        Ok("Welcome.\n")
    } else {
        Err(StatusCode::UNAUTHORIZED)
    }
}
