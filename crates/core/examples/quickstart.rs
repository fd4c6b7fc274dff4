//! Several limits in one request, a denial with its retry time, and a permit, on the memory store.
//!
//! Run it with `cargo run -p tollgate --example quickstart`.

use std::time::Duration;

use tollgate::{Acquisition, Error, Limit, Limiter};

/// Runs the example without an executor of its own: `pollster` polls the future on this thread.
pub(crate) fn main() -> Result<(), Error> {
    pollster::block_on(run())
}

async fn run() -> Result<(), Error> {
    let minute = Duration::from_secs(60);
    let limiter = Limiter::builder()
        .limit(Limit::sliding_log("per-user", 3, minute))
        .limit(Limit::sliding_log("per-tenant", 100, minute))
        .limit(Limit::concurrency("exports", 1, minute))
        .build()?;

    check_both_limits(&limiter).await?;
    hold_a_permit(&limiter).await
}

/// Every request must pass the limits of its user and of its tenant. All limits pass, or none is
/// charged.
async fn check_both_limits(limiter: &Limiter) -> Result<(), Error> {
    for request in 1..=4 {
        let decision = limiter
            .check("per-user", "ann")
            .and("per-tenant", "acme")
            .await?;

        match decision.denied_by() {
            None => println!("request {request}: allowed, {} left", decision.remaining()),
            Some(limit) => {
                let name = limit.name();
                let retry_after = decision.retry_after().unwrap_or_default();
                println!("request {request}: denied by {name}, retry in {retry_after:.1?}");
                assert!(request == 4 && retry_after <= Duration::from_secs(60));
            }
        }
    }

    // The denied request was not charged to the tenant.
    let tenant = limiter.peek("per-tenant", "acme").cost(0).await?;
    println!(
        "per-tenant: {} of {} left",
        tenant.remaining(),
        tenant.limit()
    );
    assert_eq!(tenant.remaining(), 97);
    Ok(())
}

/// A concurrency limit grants permits, which are released when dropped.
async fn hold_a_permit(limiter: &Limiter) -> Result<(), Error> {
    let first = limiter.acquire("exports", "acme").await?;
    let second = limiter.acquire("exports", "acme").await?;
    println!("first export: {}", describe(&first));
    println!("second export: {}", describe(&second));
    assert!(!second.decision().is_allowed());

    // Dropping the first permit makes room for another export.
    drop(first);
    let third = limiter.acquire("exports", "acme").await?;
    println!(
        "third export, after the first has ended: {}",
        describe(&third)
    );
    assert!(third.decision().is_allowed());
    Ok(())
}

fn describe(acquisition: &Acquisition) -> &'static str {
    if acquisition.decision().is_allowed() {
        "permit acquired"
    } else {
        "denied, one export is in flight"
    }
}
