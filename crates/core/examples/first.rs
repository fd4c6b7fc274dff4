//! The first five minutes: `cargo run -p tollgate --example first`.

use std::time::Duration;

use tollgate::headers::{Fields, fields};
use tollgate::{Clock, Limit, Limiter, Rate, SystemClock};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::builder()
        .limit(Limit::sliding_window("per-user", 3, Duration::from_secs(60)))
        .limit(Limit::token_bucket("per-tenant", 5, Rate::per_second(1)))
        .build()?;

    for user in ["ann", "ann", "ann", "ann", "bob", "bob", "bob"] {
        let decision = limiter.check("per-user", user).and("per-tenant", "acme").immediately()?;
        match decision.denied_by() {
            None => println!("{user}: allowed, {} left", decision.remaining()),
            Some(limit) => {
                println!("{user}: refused by {}, retry in {:?}", limit.name(), decision.retry_after());
            }
        }
    }

    let refused = limiter.check("per-user", "ann").immediately()?;
    println!("\nwhat a client of an HTTP service would be told:");
    for (name, value) in fields(&refused, Fields::default(), SystemClock::new().now().into()) {
        println!("  {name}: {value}");
    }
    Ok(())
}
