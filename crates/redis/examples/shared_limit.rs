//! Two replicas of an application share a limit on Redis, and failure policies decide while Redis
//! is unavailable.
//!
//! `cargo run -p tollgate-redis --example shared_limit -- redis://127.0.0.1:6379`

use std::env;
use std::error::Error;
use std::time::Duration;

use tollgate::{Decision, FailurePolicy, Limit, Limiter};
use tollgate_redis::{Endpoint, RedisBuilder, RedisStore};

/// Requests that all replicas together may make in a minute.
const LIMIT: u64 = 5;
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1);
    let url = url.as_deref().unwrap_or("redis://127.0.0.1:6379");

    // An `Endpoint` hides the password.
    println!(
        "two replicas with {LIMIT} requests per minute on {}:",
        url.parse::<Endpoint>()?
    );
    for (number, decision) in share_limit(url).await?.iter().enumerate() {
        let (replica, remaining) = (number % 2 + 1, decision.remaining());
        println!(
            "  replica {replica}: {}, {remaining} remaining",
            verdict(decision)
        );
    }

    println!("one replica without a server:");
    for decision in decide_without_server().await? {
        let limit = &decision.limits()[0];
        println!(
            "  limit {}: {} by its failure policy",
            limit.name(),
            verdict(&decision)
        );
    }
    Ok(())
}

fn verdict(decision: &Decision) -> &'static str {
    if decision.is_allowed() {
        "allowed"
    } else {
        "denied"
    }
}

/// Makes eight requests for the same user, alternately at two replicas.
pub(crate) async fn share_limit(url: &str) -> Result<Vec<Decision>, Box<dyn Error>> {
    let replicas = [connect_replica(url).await?, connect_replica(url).await?];
    // Forgets the requests of an earlier run.
    replicas[0].reset("api", "user:42").await?;

    let mut decisions = Vec::new();
    for limiter in replicas.iter().cycle().take(8) {
        decisions.push(limiter.check("api", "user:42").await?);
    }
    Ok(decisions)
}

/// A limiter with a connection of its own, as each replica has.
async fn connect_replica(url: &str) -> Result<Limiter, Box<dyn Error>> {
    let store = RedisBuilder::standalone(url)
        // The default of 10 ms is right for production. A laptop may take longer.
        .timeout(Duration::from_secs(2))
        .connect()
        .await?;

    Ok(Limiter::new(store, [Limit::fixed_window("api", LIMIT, MINUTE)]).expect("valid limits"))
}

/// Checks two limits with different failure policies while no server is available. A check never
/// waits for a connection, so the policies decide without delay.
pub(crate) async fn decide_without_server() -> Result<Vec<Decision>, Box<dyn Error>> {
    // No server listens at this port, so `connect` would fail.
    let store = RedisStore::connect_lazy("redis://127.0.0.1:1")?;
    let limits = [
        // Better an uncounted search than none.
        Limit::fixed_window("search", LIMIT, MINUTE).on_store_failure(FailurePolicy::Allow),
        // Better no login than passwords guessed without a limit.
        Limit::fixed_window("login", LIMIT, MINUTE).on_store_failure(FailurePolicy::Deny),
    ];
    let limiter = Limiter::new(store, limits).expect("valid limits");

    let mut decisions = Vec::new();
    for limit in ["search", "login"] {
        decisions.push(limiter.check(limit, "user:42").await?);
    }
    Ok(decisions)
}
